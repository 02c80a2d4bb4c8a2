"""Report: a run as it goes, and in the end, for people at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from rich.console import Console, Group
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from fedloom.data.partition.partition import counted
from fedloom.direction import metric_of
from fedloom.measures import LABELS, OWN, PARTS, SHARED, Measure, label, parse
from fedloom.runs.history import History
from fedloom.runs.ongoing import Watch
from fedloom.runs.result import Run
from fedloom.runs.stopping import Stop
from fedloom.runs.users import MOMENTS

LONGEST = 26  # letters of a name, so that a progress line fits eighty columns


def precedence(metric: str) -> int:
    """Return the place of a metric in tables: accuracy, loss, then others."""
    return {"accuracy": 0, "loss": 1}.get(metric, 2)


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
    """Return the accuracies of the last round; of several experiments, the highest."""
    names = [name for name in histories[0].columns if (found := parse(name)) and found.metric == "accuracy"]
    told = {name: name.removesuffix("_accuracy").replace("_", " ") for name in names}
    values = [f"{shown} {max(h.last(name) for h in histories):.2%}" for name, shown in reversed(told.items())]
    return ("highest " if len(histories) > 1 else "") + "  ".join(values)


def summary(run: Run) -> Group:
    """Describe one run: its name, a table of what was measured in the last round, and what it cost."""
    history = run.history
    measured = measures(history)
    metrics = sorted(dict.fromkeys(one.metric for one in measured), key=precedence)
    table = Table()
    table.add_column("last round")
    for metric in metrics:
        table.add_column(metric.replace("_", " "), justify="right")
    for models, part in dict.fromkeys((one.models, one.part) for one in measured):
        columns = [Measure(models, part, metric).column for metric in metrics]
        name = part if models == SHARED else f"{part}, {LABELS[models]}"
        table.add_row(name, *(shown(history, column) for column in columns))
    for moment, name in MOMENTS.items():
        columns = [f"users_{moment}_{metric}" for metric in metrics]
        if any(column in history.columns for column in columns):
            table.add_row(f"{of_users(history)}, {name}", *(shown(history, column) for column in columns))
            table.add_row("  the worst tenth", *(shown(history, f"{column}_worst") for column in columns))
    moved = history.last("bytes_up") + history.last("bytes_down")
    cost = (
        f"{counted(int(history.last('round')), 'round', 'rounds')}, "
        f"{counted(int(history.last('steps')), 'local step', 'local steps')}, "
        f"{moved / 1e6:,.0f} MB sent, {history.last('seconds'):.1f} s"
    )
    if "clock" in history.columns:
        busiest = history.last("busiest_bytes") / 1e6
        cost += f"; by the clock {history.last('clock'):,.1f} s, {busiest:,.1f} MB through the busiest link"
    told = [text for text in (kept_model(run), best_on_validation(history)) if text]
    return Group(Text(f"{run.label}: {run.stopped}", style="italic"), table, *map(Text, told), Text(cost, style="dim"))


def measures(history: History) -> list[Measure]:
    """Return what a history says of models: the shared model first; the training part first."""
    found = [measure for name in history.columns if (measure := parse(name))]
    return sorted(found, key=lambda one: (list(LABELS).index(one.models), PARTS.index(one.part)))


def shown(history: History, column: str) -> str:
    """Return the last value of a column as text; nothing if there is no such column."""
    return show(column, history.last(column)) if column in history.columns else ""


def show(column: str, value: float) -> str:
    """Return a value as text: an accuracy as a percentage.

    >>> show("test_accuracy", 0.5), show("test_loss", 0.5), show("test_inaccuracy_cost", 0.5)
    ('50.00%', '0.5000', '0.5000')
    """
    return f"{value:.2%}" if metric_of(column) == "accuracy" else f"{value:.4f}"


def kept_model(run: Run) -> str:
    """Return a sentence on what was monitored, if anything was, and on the round whose model is kept."""
    if not run.monitor:
        return ""
    if run.best is None:
        return f"Monitored: {label(run.monitor)}. The model is that of the last round, {run.model_round:,}."
    value = show(run.monitor, run.best[run.monitor])
    return f"Monitored: {label(run.monitor)}. The model is that of round {run.model_round:,}, the best ({value})."


def best_on_validation(history: History) -> str:
    """Return a sentence on the round that is best on validation data, if there is such data."""
    for one in sorted(measures(history), key=lambda one: (precedence(one.metric), one.models != OWN)):
        if one.part == "validation" and history.direction(one.column):
            at = int(np.argmax(history.column(one.column) == history.best(one.column)))
            row, test = history.rows[at], replace(one, part="test")
            beside = (
                f"; {test.label} in that round: {show(test.column, row[test.column])}" if test.column in row else ""
            )
            return f"Best {one.label}: {show(one.column, row[one.column])}, in round {int(row['round']):,}{beside}."
    return ""


def of_users(history: History) -> str:
    """Return which clients the columns over users are about: those of the last round, and how many these are."""
    if "users_all" not in history.columns:
        return "users"  # of a run that was recorded before they were counted
    return f"{int(history.last('users_measured')):,} of {int(history.last('users_all')):,} users"


def beside(federated: Run, central: Run, passes: float, decays: tuple[float, float] = (1.0, 1.0)) -> str:
    """Compare the last test accuracies of a federated run and of the same model trained on the union of all data.

    Runs that measure no accuracy are compared by another metric.

    Args:
        federated: the federated run.
        central: the run on the union; one round is one pass.
        passes: the passes over all clients' data that the federated run made.
        decays: of the learning rate, a round of the federation and a pass over the union.
    """
    epochs = int(central.history.last("round"))
    tested = [one for one in measures(federated.history) if one.part == "test"]
    metric = min((one.metric for one in tested), key=lambda one: (one != "accuracy", one == "loss"), default="accuracy")
    names, union = [one.column for one in tested if one.metric == metric], f"test_{metric}"
    if not names or union not in central.history.columns:
        return "Evaluate the test part to compare the two."
    mine = ", ".join(f"{show(name, federated.history.last(name))}{of_models(name)}" for name in names)
    how = f"on the union, {counted(epochs, 'pass', 'passes')}, {show(union, central.history.last(union))}"
    slower = f" The learning rate decays over the same work: by {decays[0]:g} a round, {decays[1]:.4g} a pass."
    told = f"Test {metric} in the last round: federated, {passes:.3g} passes over the data, {mine}; {how}."
    return f"{told}{slower if decays[0] != 1 else ''}"


def of_models(column: str) -> str:
    """Return whose models a column is about, in brackets; nothing for the shared model."""
    measure = parse(column)
    return f" ({LABELS[measure.models]})" if measure and measure.models != SHARED else ""


def as_json(run: Run) -> dict[str, Any]:
    """Return one run as a script wants it: its last row, the extremes of what was measured, and its folder.

    The largest accuracy of all rounds is ``max_over_rounds_test_accuracy``, the smallest loss
    ``min_over_rounds_test_loss``: on test data neither says how good the model of a chosen round is.
    """
    last = dict(run.history.rows[-1])
    ranked = [one.column for one in measures(run.history) if run.history.direction(one.column)]
    found = {f"{'max' if run.history.rises(n) else 'min'}_over_rounds_{n}": run.history.best(n) for n in ranked}
    kept = str(run.directory) if run.directory else None
    model = {"monitor": run.monitor or None, "model_round": run.model_round}
    told = {"label": run.label, "stopped": run.stopped, "diverged": run.diverged, "directory": kept}
    return {**told, **model, **last, **found}
