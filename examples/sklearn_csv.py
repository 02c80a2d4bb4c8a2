"""A scikit-learn model on a CSV file with a user column: every user is a client, and clients work in processes.

usage: python examples/sklearn_csv.py [ROUNDS]
"""

import csv
import sys
from pathlib import Path

import numpy as np
from sklearn.linear_model import SGDClassifier

import fedloom as fl


def write(file: Path, users: int = 12, rows: int = 60) -> None:
    """Steps and pulse of people who sit, walk or run, each with a pulse of their own."""
    rng = np.random.default_rng(0)
    with file.open("w", newline="") as opened:
        out = csv.writer(opened)
        out.writerow(["who", "steps", "pulse", "doing"])
        for who in range(users):
            rest = rng.normal(65, 8)
            for doing in rng.integers(0, 3, rows):
                steps, pulse = rng.normal([2, 100, 160][doing], 20), rng.normal(rest + [0, 25, 70][doing], 8)
                out.writerow([f"user {who}", f"{steps:.1f}", f"{pulse:.1f}", ["sits", "walks", "runs"][doing]])


if __name__ == "__main__":  # each process imports this script
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    write(Path("people.csv"))
    people = fl.data.csv("people.csv", label="doing", user="who")
    data = people.partition(fl.partition.natural(), fl.split.stratified(validation=0.0, test=0.25))
    model = SGDClassifier(loss="log_loss", alpha=1e-4)
    task = fl.clients.task(fl.clients.SklearnClient, model, features=2, classes=people.classes)
    algorithm = fl.fedavg(fraction=0.5, epochs=1, batch_size=10, lr=0.05)
    run = fl.run(data, task, algorithm, rounds=rounds, evaluate=["test"], engine=fl.engines.processes(2))
    print(f"test accuracy {run.history.last('test_accuracy'):.2%} after {rounds} rounds")
    print(task.give_back(run.variables).coef_.round(2))  # a row a class, as scikit-learn has it
