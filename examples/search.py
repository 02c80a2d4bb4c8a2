"""Hyper-parameters: numbers in one program with a sweep, and with Optuna what changes the program, such as sizes.

usage: python examples/search.py [TRIALS [ROUNDS]]
"""

import sys

import fedloom as fl

given = sys.argv[1:]
trials, rounds = map(int, [*given, *["3", "10"][len(given) :]])
data = fl.data.mnist().hold_out(5000).partition(fl.partition.shards(clients=100, per_client=2))


def best_rate(task: fl.tasks.Task, batch_size: int) -> tuple[float, fl.Run]:
    """Every learning rate at once: they differ in a number only, so they are one program."""
    rates, algorithm = [0.02, 0.05, 0.1, 0.2], fl.fedavg(fraction=0.1, epochs=1, batch_size=batch_size)
    runs = fl.sweep(data, task, algorithm, lr=rates, rounds=rounds, evaluate=["validation"], every=rounds)
    return max(zip(rates, runs, strict=True), key=lambda pair: pair[1].history.last("validation_accuracy"))


lr, run = best_rate(fl.tasks.logistic(), batch_size=10)
print(f"logistic regression: best at lr={lr}, {run.history.last('validation_accuracy'):.2%}")

try:
    import optuna
except ImportError:
    sys.exit("for the rest: pip install optuna")


def objective(trial: optuna.Trial) -> float:
    """What a trial costs is a program of its own, in which all learning rates are tried."""
    hidden = trial.suggest_categorical("hidden", [50, 100, 200])
    batch_size = trial.suggest_categorical("batch_size", [10, 20, 50])
    lr, run = best_rate(fl.tasks.two_nn(hidden=hidden), batch_size)
    trial.set_user_attr("lr", lr)
    return run.history.last("validation_accuracy")


study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
study.optimize(objective, n_trials=trials)
print(f"two layers: accuracy {study.best_value:.2%} with {study.best_params | study.best_trial.user_attrs}")
