"""Report: a run as it goes, and in the end, for people at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.console import Console, Group
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from fedloom.data.partition.partition import counted
from fedloom.runs.history import History
from fedloom.runs.ongoing import Watch
from fedloom.runs.result import Run
from fedloom.runs.seed_group import group_seeds
from fedloom.runs.stopping import Stop

LONGEST = 26  # letters of a name, so that a progress line fits eighty columns


@contextmanager
def live(console: Console, stop: Stop, shown: bool) -> Iterator[Callable[[Sequence[str]], Watch]]:
    """Inside, a function that makes a progress line for some experiments: accuracy, rounds a second, time left."""
    if not shown:
        yield lambda labels: lambda histories: None  # noqa: ARG005
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=10),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}  {task.fields[metrics]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:

        def begin(labels: Sequence[str]) -> Watch:
            name = labels[0] if len(labels) == 1 else f"{len(labels)} experiments"
            name = name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
            line = progress.add_task(name, total=stop.rounds, speed="compiling …", metrics="")

            def watch(histories: Sequence[History]) -> None:
                done = max(h.last("round") for h in histories)
                progress.update(line, completed=done, speed=speed(histories), metrics=headline(histories))

            return watch

        yield begin


def speed(histories: Sequence[History]) -> str:
    """Rounds a second over the last ten evaluations."""
    longest = max(histories, key=len)
    recent = longest.rows[-10:]
    rounds, seconds = (recent[-1][name] - recent[0][name] for name in ("round", "seconds"))
    return f"{rounds / seconds:.1f} rounds/s" if rounds and seconds else "compiling …"


def headline(histories: Sequence[History]) -> str:
    """The accuracies as they are; of several experiments, the best."""
    names = [n for n in histories[0].columns if n.endswith("_accuracy") and not n.startswith("users_")]
    values = [f"{n.removesuffix('_accuracy')} {max(h.last(n) for h in histories):.2%}" for n in reversed(names)]
    return ("best " if len(histories) > 1 else "") + "  ".join(values)


def summary(run: Run) -> Group:
    """One run: its name, a table of each part of the data, last and best, and what it cost."""
    history = run.history
    table = Table()
    for name, side in (("", "left"), ("accuracy", "right"), ("best", "right"), ("loss", "right"), ("best", "right")):
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    for split in ("train", "validation", "test"):
        if f"{split}_accuracy" in history.columns:
            accuracy, loss = f"{split}_accuracy", f"{split}_loss"
            table.add_row(split, f"{history.last(accuracy):.2%}", f"{history.best(accuracy):.2%}",
                          f"{history.last(loss):.4f}", f"{history.best(loss):.4f}")  # fmt: skip
    for moment, name in (("before", "before fitting"), ("after", "after fitting")):
        accuracy, loss = f"users_{moment}_accuracy", f"users_{moment}_loss"
        if accuracy in history.columns:
            told = f"{of_users(history)}, {name}"
            table.add_row(told, f"{history.last(accuracy):.2%}", f"{history.best(accuracy):.2%}",
                          f"{history.last(loss):.4f}", f"{history.best(loss):.4f}")  # fmt: skip
            worst = f"{accuracy}_worst"
            table.add_row("  the worst tenth", f"{history.last(worst):.2%}", f"{history.best(worst):.2%}", "", "")
    moved = history.last("bytes_up") + history.last("bytes_down")
    cost = (
        f"{counted(int(history.last('round')), 'round', 'rounds')}, "
        f"{counted(int(history.last('steps')), 'local step', 'local steps')}, "
        f"{moved / 1e6:,.0f} MB sent, {history.last('seconds'):.1f} s"
    )
    if "clock" in history.columns:
        busiest = history.last("busiest_bytes") / 1e6
        cost += f"; by the clock {history.last('clock'):,.1f} s, {busiest:,.1f} MB through the busiest link"
    return Group(Text(f"{run.label}: {run.stopped}", style="italic"), table, Text(cost, style="dim"))


def of_users(history: History) -> str:
    """Return which clients the columns over users are about: those of the last round, and how many these are."""
    if "users_all" not in history.columns:
        return "users"  # of a run that was recorded before they were counted
    return f"{int(history.last('users_measured')):,} of {int(history.last('users_all')):,} users"


def beside(federated: Run, central: Run, passes: float, decays: tuple[float, float] = (1.0, 1.0)) -> str:
    """Compare the test accuracies of a federated run and of the same model trained on the union of all data.

    Args:
        federated: the federated run.
        central: the run on the union; one round is one pass.
        passes: the passes over all clients' data that the federated run made.
        decays: of the learning rate, a round of the federation and a pass over the union.
    """
    told, epochs = [], int(central.history.last("round"))
    for how, run in ((f"federated, {passes:.3g} passes over the data,", federated),
                     (f"on the union, {counted(epochs, 'pass', 'passes')},", central)):  # fmt: skip
        if "test_accuracy" not in run.history.columns:
            return "Evaluate the test part to compare the two."
        last, best = run.history.last("test_accuracy"), run.history.best("test_accuracy")
        told.append(f"{how} {last:.2%} (best {best:.2%})")
    slower = f" The learning rate decays over the same work: by {decays[0]:g} a round, {decays[1]:.4g} a pass."
    return f"Test accuracy: {'; '.join(told)}.{slower if decays[0] != 1 else ''}"


def comparison(runs: Sequence[Run], target: float | None) -> Table:
    """Several runs in a table, the best first; those that differ in their seeds alone are one line, with the mean and
    the deviation of their best, and the mean rounds to the target of those that got there. What they cost is the mean.
    """
    together = {group.label: [runs[i] for i in group.indices] for group in group_seeds(runs)}
    best = {label: [run.history.best("test_accuracy") for run in mine] for label, mine in together.items()}
    timed = "clock" if all("clock" in run.history.columns for run in runs) else "seconds"
    odd = [run for run in runs if not run.stopped.startswith("did ") and " reached " not in run.stopped]
    notes = ["±: the deviation over seeds"] if len(together) < len(runs) else []
    notes += ["seconds include compiling, which the first run of a program does"] if timed == "seconds" else []
    many, told = counted(len(runs), "experiment", "experiments"), "; ".join(notes)
    table = Table(title=many, title_justify="left", caption=told, caption_justify="left")
    table.add_column("experiment")
    heads = ["best test", *([f"to {target:.4g}"] if target else []), "rounds", "MB", timed]
    for name in heads:
        table.add_column(name, justify="right", no_wrap=True)
    if odd:
        table.add_column("stopped")
    for label in sorted(together, key=lambda label: -float(np.mean(best[label]))):
        mine = together[label]
        spread = f" ± {np.std(best[label], ddof=1):.2%}" if len(mine) > 1 else ""
        mean = {name: np.mean([run.history.last(name) for run in mine]) for name in ("round", timed)}
        sent = np.mean([run.history.last("bytes_up") + run.history.last("bytes_down") for run in mine]) / 1e6
        cells = [label, f"{np.mean(best[label]):.2%}{spread}", *([to_target(mine, target)] if target else [])]
        cells += [f"{mean['round']:.4g}", f"{sent:,.1f}", f"{mean[timed]:,.1f}"]
        ends = dict.fromkeys(run.stopped.split(":")[0].split(";")[0] for run in mine if run in odd)
        table.add_row(*cells, *([", ".join(ends)] if odd else []))
    return table


def to_target(runs: Sequence[Run], target: float) -> str:
    """The mean rounds to a target, and of how many runs, if not all got there."""
    reached = [n for run in runs if (n := run.history.reached("test_accuracy", target)) is not None]
    if not reached:
        return "–"
    return f"{np.mean(reached):.4g}" + (f" ({len(reached)} of {len(runs)})" if len(reached) < len(runs) else "")


def as_json(run: Run) -> dict[str, Any]:
    """One run as what a script wants: its last row and where it is kept."""
    last = dict(run.history.rows[-1])
    best = {f"best_{n}": run.history.best(n) for n in run.history.columns if run.history.direction(n)}
    kept = str(run.directory) if run.directory else None
    how = {"status": run.status, "stopped": run.stopped, "diverged": run.diverged}
    return {"label": run.label, **how, "directory": kept, **last, **best}
