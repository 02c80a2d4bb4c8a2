"""Peers: one experiment over MPI, every rank some of the workers."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Annotated, Any, NoReturn, Optional

import typer

from fedloom.cli.experiments import FIGURE, Manner, check_folder, folder_of, short
from fedloom.cli.shared import DataFolder, Debug, File, Json, Out, Quiet, described, errors, tell, told, with_fields
from fedloom.engines.mailbox import Mailbox, checked_delays
from fedloom.engines.world import world
from fedloom.errors import FedloomError, PeerError, choose, require
from fedloom.runs import report
from fedloom.runs.board import board, table
from fedloom.runs.experiment import Experiment
from fedloom.runs.order import Order, Refused, dispatched
from fedloom.runs.plot import plot
from fedloom.runs.ranks import RESUMABLE, Attendance, diverged
from fedloom.runs.result import Run
from fedloom.selection import SELECTIONS

PATIENCE = 60.0  # seconds
KNOWN = ", ".join(SELECTIONS)


@with_fields()
def peers_command(
    file: File = None,
    out: Out = None,
    selection: Annotated[Optional[str], typer.Option(help=f"how a round's clients are selected: {KNOWN}")] = None,  # noqa: UP045
    workers: Annotated[Optional[int], typer.Option(help="how many, if fewer than clients")] = None,  # noqa: UP045
    timeout: Annotated[float, typer.Option(help="seconds after which a silent rank is given up")] = PATIENCE,
    delay: Annotated[str, typer.Option(help="seconds to hold models back; several for ranks in turn: 0,0.3")] = "0",
    save_every: Annotated[int, typer.Option(help="rounds between checkpoints")] = 10,
    data_folder: DataFolder = None,
    quiet: Quiet = False,
    json_: Json = False,
    debug: Debug = False,
    **fields: Any,
) -> None:
    """Run one experiment over MPI: every rank trains some of the workers, and sends their models to the others.

    Workers average along a topology without a server (dpa-sgd), stay alone (local), or rank 0 is the server (fedavg,
    fedsgd, fedprox). Each worker computes what it computes in fedloom run. A run that stands in the folder goes on
    where it stopped.

    With fewer workers than clients (--workers), each round selects as many clients as there are workers.

    Examples:
      mpirun -n 4 fedloom peers --algorithm dpa-sgd --topology ring --clients 16 --out ring

      mpirun -n 2 fedloom peers experiment.toml --workers 8 --selection once --delay 0,0.3
    """
    with told(debug):
        here = world()
    mailbox = Mailbox(here, timeout if timeout > 0 else PATIENCE)

    def write() -> Order:
        require(timeout > 0, "timeout", "above 0 seconds", timeout)
        if selection is not None:
            choose("selection", selection, SELECTIONS)
        experiment, delays = described(file, fields), tuple(checked_delays(delay))
        experiment.leave_alone("engine", "over MPI, where every rank computes on its own")
        folder = folder_of(out, f"{experiment.model}-{short(experiment.data)}-{here.size}-ranks")
        check_folder(experiment, folder)
        where = str(data_folder.resolve()) if data_folder else None
        return Order(experiment.to_toml(), str(folder.resolve()), selection, workers, save_every, delays, where)

    attend(mailbox, write, Manner(quiet, json_, data_folder), debug)


def attend(mailbox: Mailbox, write: Callable[[], Order], manner: Manner, debug: bool) -> None:
    """One rank's part of a run, from the order to the exit status."""
    first, attendance = mailbox.world.rank == 0, None
    try:
        order = dispatched(mailbox, write)
        with board(errors, Experiment.from_toml(order.experiment).rounds, first and manner.shows) as watch:
            attendance = Attendance(mailbox, order, watch)
            run = attendance.run()
    except Refused as error:
        mailbox.close()
        with told(debug):
            if first:
                raise FedloomError(str(error)) from None
        raise typer.Exit(2) from None
    except BaseException as error:
        leave(mailbox, attendance, error, debug)
    if run is not None:
        tell_all(run, attendance.workers, manner)
    if attendance.verdict == RESUMABLE:
        if first:
            errors.print(f"Go on with the same command and --out {order.folder}", style="yellow", soft_wrap=True)
        raise typer.Exit(130)
    if diverged(attendance.verdict):
        raise typer.Exit(2)


def tell_all(run: Run, workers: list[dict[str, Any]], manner: Manner) -> None:
    """What came of a run, drawn and in tables."""
    assert run.directory is not None
    figure = run.directory / FIGURE
    plot([(run.label, run.history)], against=["rounds"], file=figure)
    tell(manner.quiet, manner.json, report.as_json(run), report.summary(run), table(workers), f"Figure: {figure}")


def leave(mailbox: Mailbox, attendance: Attendance | None, error: BaseException, debug: bool) -> NoReturn:
    """Take leave of the other ranks after an error, here or there, and end without MPI's own end, which waits for all.
    Whoever left first says why; the others pass it on.
    """
    me = f"rank {mailbox.world.rank}"
    why = str(error) if isinstance(error, PeerError) else f"{me} left: {type(error).__name__}: {error}"
    if debug or not isinstance(error, FedloomError | KeyboardInterrupt):
        traceback.print_exception(error)
    try:
        if attendance is None:
            mailbox.leave(why, mailbox.timeout)
            how = "nothing was done yet"
        else:
            how = attendance.leave(why)
        errors.print(f"[bold red]Error:[/bold red] {me}: {why}; {how}", soft_wrap=True, highlight=False)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
