"""What the commands share: options, consoles, and how errors and results are told."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sqlite3
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from rich.console import Console

from fedloom.errors import FedloomError, FedloomWarning
from fedloom.runs.catalogue import is_path
from fedloom.runs.experiment import Experiment
from fedloom.runs.plan import SWEPT

console, errors = Console(emoji=False), Console(stderr=True, emoji=False)  # :AB: in a fingerprint is no picture
FIELDS = dataclasses.fields(Experiment)
DATA_GROUPS = ("Data", "Clients")
FILES = ("data", "partition", "epochs", "topology", "compute", "latency", "bandwidth")
"""Fields that may name a file."""
WARNINGS: ContextVar[list[str]] = ContextVar("warnings")
"""The warnings of the command that runs, in the order in which they were issued."""


def default(text: object) -> str:
    """How help shows a default."""
    return f"[dim]\\[default: {text}][/dim]"


Out = Annotated[Optional[Path], typer.Option(help=f"folder for the results {default('a new one under runs/')}")]  # noqa: UP045
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="print nothing but errors and warnings")]
Json = Annotated[bool, typer.Option("--json", help="print the result as JSON, with a list of warnings")]
Debug = Annotated[bool, typer.Option("--debug", help="show the traceback of an error")]
File = Annotated[Optional[Path], typer.Argument(help="a TOML file with an experiment; options overrule it")]  # noqa: UP045
DataFolder = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(help=f"folder that holds data sets {default('FEDLOOM_DATA, or data_folder in fedloom.toml')}"),
]


def with_fields(
    groups: Sequence[str] | None = None, *, many: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command that has the fields of an experiment (of some groups) as options; ``many``: some as lists."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.kind is not p.VAR_KEYWORD]
        options = []
        for f in FIELDS:
            if (groups is not None and f.metadata["group"] not in groups) or f.name in (p.name for p in own):
                continue
            shown = f.metadata["missing"] if f.default is None else f.default
            listed = ", or several: a,b,c" if many and f.name in SWEPT else ""
            info = typer.Option(help=f"{f.metadata['help']}{listed} {default(shown)}",
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


def described(file: Path | None, fields: dict[str, Any]) -> Experiment:
    """The experiment that a file and options describe; files that it names are found from anywhere later."""
    changes = {name: value for name, value in fields.items() if value is not None}
    experiment = (Experiment.read(file) if file else Experiment()).replace(**changes)
    return experiment.replace(**found(experiment.given))


def found(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields, with files that they name as found from anywhere."""

    def absolute(name: str, text: str) -> str:
        named = is_path(name, text) if name in ("data", "partition") else text.endswith(".csv")
        return str(Path(text).resolve()) if named and Path(text).exists() else text

    def whole(name: str, value: Any) -> Any:
        if name not in FILES or not isinstance(value, str):
            return value
        return absolute(name, value) if name == "data" else ",".join(absolute(name, one) for one in value.split(","))

    return {name: whole(name, value) for name, value in fields.items()}


def tell(quiet: bool, as_json: bool, result: Any, *shown: Any) -> None:
    """Print a result: one JSON object with its warnings, nothing if ``quiet``, or what is to be shown."""
    if as_json:
        found = result if isinstance(result, dict) else {"results": result}
        print(json.dumps({**found, "warnings": WARNINGS.get([])}, ensure_ascii=False))
    elif not quiet:
        for item in shown:
            console.print(item, soft_wrap=isinstance(item, str))


@contextmanager
def told(debug: bool) -> Iterator[None]:
    """Print errors as one sentence and exit with code 2; print warnings as one sentence and keep them for ``tell``."""
    WARNINGS.set([])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", FedloomWarning)
            warnings.showwarning = lambda message, *_, **__: warn(str(message))
            yield
    except FedloomError as error:
        if debug:
            raise
        errors.print(f"[bold red]Error:[/bold red] {_plain(str(error))}", soft_wrap=True, highlight=False)
        raise typer.Exit(2) from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, sqlite3.Error) as error:
        if debug:
            raise
        errors.print(f"[bold red]Error:[/bold red] {_plain(str(error))}", soft_wrap=True, highlight=False)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        errors.print(
            "stopped at once; what was saved before, if anything, goes on with the same command, or fedloom resume",
            style="yellow",
        )
        raise typer.Exit(130) from None


def warn(text: str) -> None:
    """Print a warning on standard error, once, and keep it for ``tell``."""
    issued = WARNINGS.get([])
    if text not in issued:
        issued.append(text)
        errors.print(f"[yellow]Warning:[/yellow] {_plain(text)}", soft_wrap=True, highlight=False)


def _plain(text: str) -> str:
    return text.replace("[", "\\[")
