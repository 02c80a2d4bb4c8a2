"""Data: describe, partition, get."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from rich.table import Table
from rich.text import Text

from fedloom.cli.read_as import as_json, tables
from fedloom.cli.shared import (
    DATA_GROUPS,
    DataFolder,
    Debug,
    File,
    Json,
    Quiet,
    console,
    default,
    described,
    tell,
    told,
    with_fields,
)
from fedloom.data import FederatedData, describe, picture, saved
from fedloom.data.description import Description
from fedloom.data.download import MIRRORS, get
from fedloom.runs.prepare import federated

data_app = typer.Typer(help="Look at federated data, save who has what, fetch data sets.", no_args_is_help=True)

Figure = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(help=f"where to draw clients × labels and the sizes: png, pdf or svg {default('clients.png')}"),
]


@data_app.command("describe")
@with_fields(DATA_GROUPS)
def describe_command(
    file: File = None,
    figure: Figure = None,
    data_folder: DataFolder = None,
    quiet: Quiet = False,
    json_: Json = False,
    debug: Debug = False,
    **fields: Any,
) -> None:
    """Print what clients have, and draw it: clients × labels, and how much each has.

    Examples:
      fedloom data describe --partition dirichlet --alpha 0.1 --clients 20

      fedloom data describe --data people.csv --user who --label what
    """
    with told(debug):
        data = federated(described(file, fields), data_folder)
        drawn = figure if figure or quiet or json_ else Path("clients.png")
        show(data, describe(data), drawn, quiet, json_)


@data_app.command("partition")
@with_fields(DATA_GROUPS)
def partition_command(
    save: Annotated[Path, typer.Option(help="file to write, ending in .safetensors")],
    file: File = None,
    figure: Annotated[Path | None, typer.Option(help=f"where to draw what clients have {default('nowhere')}")] = None,
    data_folder: DataFolder = None,
    quiet: Quiet = False,
    json_: Json = False,
    debug: Debug = False,
    **fields: Any,
) -> None:
    """Deal the data to clients and save who has what, so that others train on the same clients.

    Load it with --partition FILE, with fedloom.data.saved.load, or with any reader of safetensors files.

    In the file, ``index`` lists example numbers; client k has train.size\\[k] of them from train.start\\[k] on.

    Example: fedloom data partition --partition dirichlet --alpha 0.1 --save clients.safetensors
    """
    with told(debug):
        if save.suffix != ".safetensors":
            raise typer.BadParameter(f"must end in .safetensors, but is {save}", param_hint="--save")
        data = federated(described(file, fields), data_folder)
        saved.save(data, save)
        show(data, describe(data), figure, quiet, json_)
        if not (quiet or json_):
            console.print(f"Partition: {save}", soft_wrap=True)


@data_app.command("get")
def get_command(
    name: Annotated[str, typer.Argument(help="any of " + ", ".join(sorted(MIRRORS)))],
    data_folder: DataFolder = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fetch a data set from its public mirror into the data folder, and check it against its published checksum."""
    with told(debug):
        for path in get(name, data_folder):
            if not quiet:
                console.print(f"{path}", soft_wrap=True)


def show(data: FederatedData, about: Description, figure: Path | None, quiet: bool, json_: bool) -> None:
    """A description on the terminal, and its picture in a file."""
    if figure is not None:
        picture(about, figure)
    drawn = [f"Figure: {figure}"] if figure is not None else []
    notes = [Text(data.note)] if data.note else []
    tell(quiet, json_, about.summary() | as_json(data), table(about), *tables(data.read_as), *notes, *drawn)


def table(about: Description) -> Table:
    """A description for people."""
    found = about.summary()
    shown = Table(title=Text(about.name), title_justify="left", show_header=False)
    shown.add_row("an example", about.example)
    shown.add_row("models see", about.inputs)
    shown.add_row("clients", f"{about.clients:,}")
    for part, (owned, nobodys) in about.parts.items():
        whose = f" ({owned:,} of clients, {nobodys:,} of nobody)" if owned and nobodys else ""
        where = " (of nobody)" if not owned else ""
        shown.add_row(f"{part} examples", f"{owned + nobodys:,}{whose}{where}")
    shown.add_row("a client's training set", f"{found['size_min']:,} to {found['size_max']:,}, "
                  f"median {found['size_median']:,g}, Gini {found['size_gini']:.3f}")  # fmt: skip
    if "classes" in found:
        shown.add_row("classes", f"{found['classes']:,}, median {found['classes_per_client_median']:g} a client")
        if list(about.class_names) != [str(c) for c in range(found["classes"])]:
            shown.add_row("", Text(", ".join(about.class_names[:12]) + (", …" if found["classes"] > 12 else "")))
        shown.add_row("label entropy", f"{found['label_entropy_mean']:.3f} bits a client, "
                      f"{found['label_entropy_of_all']:.3f} of all together")  # fmt: skip
    return shown
