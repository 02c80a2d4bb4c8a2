"""The command line: run, sweep, resume, plot, list."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from rich.console import Console
from rich.table import Table

from fedloom.engines import compiled
from fedloom.errors import ArgumentError, CheckpointError, FedloomError, require
from fedloom.runs import report
from fedloom.runs.catalogue import LISTING
from fedloom.runs.checkpoint import write_text
from fedloom.runs.experiment import Experiment, convert
from fedloom.runs.plot import AGAINST, plot
from fedloom.runs.runner import Run, Settings, load, train
from fedloom.runs.sweep import SWEPT, combinations, sweep

app = typer.Typer(
    name="fedloom",
    help="Federated learning, compiled: whole runs and whole sweeps in one XLA program.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
console, errors = Console(), Console(stderr=True)
EXPERIMENT, SWEEP, FIGURE = "experiment.toml", "sweep.json", "figure.png"
FIELDS = dataclasses.fields(Experiment)

Out = Annotated[Optional[Path], typer.Option(help="folder for the results [default: a new one under runs/]")]  # noqa: UP045
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="print nothing but errors")]
Json = Annotated[bool, typer.Option("--json", help="print the result as JSON, and nothing else")]
Debug = Annotated[bool, typer.Option("--debug", help="show the traceback of an error")]
File = Annotated[Optional[Path], typer.Argument(help="a TOML file with an experiment; options overrule it")]  # noqa: UP045


def with_fields(many: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command that has every field of an experiment as an option; ``many``: numbers may be lists."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.kind is not p.VAR_KEYWORD]
        options = []
        for f in FIELDS:
            shown = f.metadata["missing"] if f.default is None else f.default
            listed = ", or several: 1,2,3" if many and f.name in SWEPT else ""
            info = typer.Option(help=f"{f.metadata['help']}{listed} [dim]\\[default: {shown}][/dim]",
                                metavar=str(f.type).split(" ")[0].upper(), show_default=False,
                                rich_help_panel=f.metadata["group"])  # fmt: skip
            kind = Annotated[Optional[str], info]  # noqa: UP045
            options.append(inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind))
        options = [o for o in options if not many or o.name != "seed"]
        ordered = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
        command.__signature__ = inspect.Signature(ordered + options)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in ordered + options}
        return command

    return decorate


@app.command("run", rich_help_panel="Experiments")
@with_fields(many=False)
def run_command(
    file: File = None, out: Out = None, quiet: Quiet = False, json_: Json = False, debug: Debug = False, **fields: Any
) -> None:
    """Run one experiment. With no arguments: MNIST, 2NN, IID, to 97 % test accuracy.

    Shows progress, then a table and a figure; keeps the history, checkpoints and the model in a folder.

    Examples:
      fedloom run

      fedloom run --model cnn --partition shards --epochs 5 --target 0.99 --rounds 300

      fedloom run experiment.toml --lr 0.05
    """
    with told(debug):
        changes = {name: value for name, value in fields.items() if value is not None}
        experiment = (Experiment.read(file) if file else Experiment()).replace(**changes)
        folder = out or fresh_folder(f"{experiment.model}-{experiment.partition}")
        known = folder / EXPERIMENT
        if known.exists() and Experiment.read(known) != experiment:
            raise CheckpointError(f"{folder} holds another experiment: choose another folder, or fedloom resume it")
        go(experiment, folder, quiet, json_)


@app.command(rich_help_panel="Experiments")
def resume(
    directory: Annotated[Path, typer.Argument(help="the folder of a run or a sweep")],
    rounds: Annotated[Optional[int], typer.Option(help="go on until this many rounds")] = None,  # noqa: UP045
    target: Annotated[Optional[str], typer.Option(help="go on until this test accuracy, or none")] = None,  # noqa: UP045
    quiet: Quiet = False,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Go on with a run or a sweep that was stopped or killed; its numbers are those of a run left alone."""
    with told(debug):
        if (directory / SWEEP).is_file():
            go_sweep(directory, quiet, json_)
            return
        if not (directory / EXPERIMENT).is_file():
            raise CheckpointError(f"{directory} holds no run: there is no {EXPERIMENT}")
        changes = {"rounds": rounds, "target": target}
        experiment = Experiment.read(directory / EXPERIMENT)
        go(experiment.replace(**{k: v for k, v in changes.items() if v is not None}), directory, quiet, json_)


@app.command("sweep", rich_help_panel="Experiments")
@with_fields(many=True)
def sweep_command(
    file: File = None,
    out: Out = None,
    seeds: Annotated[str, typer.Option(help="how many seeds, or which: 0,7,9")] = "1",
    quiet: Quiet = False,
    json_: Json = False,
    debug: Debug = False,
    **fields: Any,
) -> None:
    """Run every combination of numbers and seeds, each with the numbers it gives alone.

    On an accelerator they run side by side in one program. A folder that stands there goes on where it stopped.

    Example: fedloom sweep --lr 0.05,0.1,0.2 --seeds 3
    """
    with told(debug):
        base = Experiment.read(file) if file else Experiment(evaluate="test")
        axes, changes = split_axes({k: v for k, v in fields.items() if v is not None})
        experiment = base.replace(**changes)
        require("test" in experiment.splits, "evaluate", "with test, by which a sweep compares", experiment.evaluate)
        for name, values in axes.items():
            for value in values:
                experiment.replace(**{name: value})
        folder = out or fresh_folder(f"sweep-{experiment.model}-{experiment.partition}")
        plan = {"experiment": experiment.to_toml(), "axes": axes, "seeds": parse_seeds(seeds)}
        if (folder / SWEEP).exists() and json.loads((folder / SWEEP).read_text()) != plan:
            raise CheckpointError(f"{folder} holds another sweep: choose another folder, or fedloom resume it")
        write_text(folder / SWEEP, json.dumps(plan, indent=1) + "\n")
        go_sweep(folder, quiet, json_)


@app.command("plot", rich_help_panel="Results")
def plot_command(
    directories: Annotated[list[Path], typer.Argument(help="folders of runs; several share one figure")],
    metric: Annotated[str, typer.Option(help="metrics, one row each")] = "accuracy,loss",
    against: Annotated[str, typer.Option(help="any of rounds, bytes, seconds, steps; one column each")] = (
        "rounds,bytes,seconds"
    ),
    file: Annotated[Path, typer.Option(help="where to save it: png, pdf or svg")] = Path("figure.png"),
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Draw accuracy and loss of one or several runs against rounds, bytes and seconds."""
    with told(debug):
        runs = [load(folder) for folder in directories]
        for x in against.split(","):
            if x not in AGAINST:
                raise ArgumentError("against", "any of " + ", ".join(AGAINST), x)
        names = [run.label for run in runs]
        labels = [str(d) if names.count(n) > 1 else n for n, d in zip(names, directories, strict=True)]
        pairs = [(label, run.history) for label, run in zip(labels, runs, strict=True)]
        plot(pairs, metrics=metric.split(","), against=against.split(","), file=file)
        if not quiet:
            console.print(f"Figure: {file}")


@app.command("list", rich_help_panel="Results")
def list_command(json_: Json = False) -> None:
    """List what can be named: data sets, partitions, models, algorithms, optimisers, weightings, servers."""
    if json_:
        print(json.dumps(LISTING, ensure_ascii=False, indent=1))
        return
    for kind, names in LISTING.items():
        table = Table(title=f"--{kind}", title_justify="left", show_header=False, box=None, padding=(0, 2))
        for name, meaning in names.items():
            table.add_row(f"[bold]{name}[/bold]", meaning)
        console.print(table)


def go_sweep(folder: Path, quiet: bool, as_json: bool) -> None:
    """Run the sweep that is described in a folder, and tell what came of it."""
    plan = json.loads((folder / SWEEP).read_text())
    experiment, axes, seeds = Experiment.from_toml(plan["experiment"]), plan["axes"], plan["seeds"]
    data, task, algorithm = experiment.build_data(), experiment.build_task(), experiment.build_algorithm()
    for point in combinations(algorithm, axes, seeds):
        fields = dict(part.split("=") for part in point.label.split(","))
        write_text(folder / point.label / EXPERIMENT, experiment.replace(**fields).to_toml())
    rules = {name: getattr(experiment, name) for name in ("rounds", "target", "patience", "seconds", "every")}
    with report.live(errors, experiment.stop(), not (quiet or as_json)) as watch:
        runs = sweep(data, task, algorithm, seeds=seeds, directory=folder, evaluate=experiment.splits, watch=watch,
                     **rules, **axes)  # fmt: skip
    plot([(r.label, r.history) for r in runs], target=experiment.target, file=folder / FIGURE)
    table = report.comparison(runs, experiment.target)
    tell(quiet, as_json, [report.as_json(run) for run in runs], table, f"Figure: {folder / FIGURE}")
    leave_if_interrupted(runs, folder)


def go(experiment: Experiment, folder: Path, quiet: bool, as_json: bool) -> None:
    """Run an experiment in a folder, and tell what came of it."""
    data, task, algorithm = experiment.build_data(), experiment.build_task(), experiment.build_algorithm()
    for split in experiment.splits:
        require(split in data.splits, "evaluate", "of " + ", ".join(data.splits), split)
    write_text(folder / EXPERIMENT, experiment.to_toml())
    stop = experiment.stop()
    settings = Settings(stop, experiment.splits, experiment.every)
    label = f"{experiment.model}, {data.name}"
    with report.live(errors, stop, not (quiet or as_json)) as watch:
        [run] = train(compiled(), data, task, [algorithm], [experiment.seed], settings, [folder], [label],
                      watch([label]))  # fmt: skip
    plot([(run.label, run.history)], target=experiment.target, file=folder / FIGURE)
    tell(quiet, as_json, report.as_json(run), report.summary(run), f"Figure: {folder / FIGURE}")
    if run.diverged:
        raise FedloomError(run.stopped)
    leave_if_interrupted([run], folder)


def leave_if_interrupted(runs: Sequence[Run], folder: Path) -> None:
    """After Ctrl-C, say how to go on."""
    if any(run.stopped.startswith("interrupted") for run in runs):
        errors.print(f"Go on with: fedloom resume {folder}", style="yellow", soft_wrap=True)
        raise typer.Exit(130)


def tell(quiet: bool, as_json: bool, result: Any, *shown: Any) -> None:
    """The result in the form that was asked for."""
    if as_json:
        print(json.dumps(result))
    elif not quiet:
        for item in shown:
            console.print(item, soft_wrap=isinstance(item, str))


def split_axes(fields: dict[str, str]) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """The fields that have several values, and the others.

    >>> split_axes({"lr": "0.1,0.2", "model": "cnn"})
    ({'lr': [0.1, 0.2]}, {'model': 'cnn'})
    """
    kinds = {f.name: f for f in FIELDS}
    axes: dict[str, list[Any]] = {}
    for name, text in fields.items():
        if "," in text and name != "evaluate":
            require(name in SWEPT, name, "one value; only " + ", ".join(SWEPT) + " can have several", text)
            axes[name] = [convert(kinds[name], value.strip()) for value in text.split(",") if value.strip()]
    return axes, {name: text for name, text in fields.items() if name not in axes}


def parse_seeds(text: str) -> list[int]:
    """Which seeds, from how many or a list.

    >>> parse_seeds("3"), parse_seeds("0,7")
    ([0, 1, 2], [0, 7])
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    require(bool(parts) and all(p.isdigit() for p in parts), "seeds", "a number, or numbers with commas", text)
    return [int(p) for p in parts] if "," in text else list(range(int(text)))


def fresh_folder(name: str) -> Path:
    """A folder under runs/ that does not exist yet."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    candidates = (Path("runs") / f"{stamp}-{name}{suffix}" for suffix in ["", *(f"-{i}" for i in range(2, 1000))])
    return next(folder for folder in candidates if not folder.exists())


@contextmanager
def told(debug: bool) -> Iterator[None]:
    """Errors a user can do something about become one sentence and exit code 2."""
    try:
        yield
    except FedloomError as error:
        if debug:
            raise
        errors.print(f"[bold red]Error:[/bold red] {_plain(str(error))}", soft_wrap=True, highlight=False)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        errors.print("stopped at once; what was saved before can be resumed", style="yellow")
        raise typer.Exit(130) from None


def _plain(text: str) -> str:
    return text.replace("[", "\\[")


def main() -> None:
    """The command `fedloom`."""
    app(args=sys.argv[1:])
