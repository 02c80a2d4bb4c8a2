"""The commands, put together."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fedloom.cli.data import data_app
from fedloom.cli.experiments import run_command
from fedloom.cli.federation import client_command, server_command, status_command
from fedloom.cli.keys import keys_app
from fedloom.cli.peers import peers_command
from fedloom.cli.reproduce import reproduce
from fedloom.cli.results import list_command, plot_command
from fedloom.cli.resume import resume
from fedloom.cli.sweep import sweep_command
from fedloom.cli.topology import topology_command
from fedloom.version import VERSION

app = typer.Typer(
    name="fedloom",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def tell_version(asked: bool) -> None:
    """Print the version, if it is asked for, and nothing else."""
    if asked:
        print(VERSION)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=tell_version, is_eager=True, help="print it")] = False,
) -> None:
    """Federated learning, compiled: whole runs and whole sweeps in one XLA program."""


app.command("run", rich_help_panel="Experiments")(run_command)
app.command("sweep", rich_help_panel="Experiments")(sweep_command)
app.command("resume", rich_help_panel="Experiments")(resume)
app.command("peers", rich_help_panel="Experiments")(peers_command)
app.command("reproduce", rich_help_panel="Experiments")(reproduce)
app.command("plot", rich_help_panel="Results")(plot_command)
app.command("list", rich_help_panel="Results")(list_command)
app.command("topology", rich_help_panel="Data")(topology_command)
app.add_typer(data_app, name="data", rich_help_panel="Data")
app.command("server", rich_help_panel="Federation")(server_command)
app.command("client", rich_help_panel="Federation")(client_command)
app.command("status", rich_help_panel="Federation")(status_command)
app.add_typer(keys_app, name="keys", rich_help_panel="Federation")


def main() -> None:
    """The command `fedloom`."""
    app(args=sys.argv[1:])
