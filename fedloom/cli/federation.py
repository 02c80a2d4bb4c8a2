"""Federation: a server, its participants, and how a run stands."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer
from rich.table import Table
from rich.text import Text

import fedloom.federation as network
from fedloom.cli.agreement import about, blank, built, judging, mine, owned, undealt
from fedloom.cli.experiments import EXPERIMENT, FIGURE, check_folder
from fedloom.cli.read_as import as_json, tables
from fedloom.cli.shared import (
    DATA_GROUPS,
    DataFolder,
    Debug,
    File,
    Json,
    Quiet,
    described,
    errors,
    tell,
    told,
    warn,
    with_fields,
)
from fedloom.data import FederatedData
from fedloom.direction import metric_of
from fedloom.errors import ArgumentError, require
from fedloom.federation.log import Log, printable
from fedloom.federation.rules import Rules
from fedloom.runs import report
from fedloom.runs.checkpoint import write_text
from fedloom.runs.experiment import Experiment
from fedloom.runs.plot import plot
from fedloom.runs.prepare import federated
from fedloom.runs.result import Run
from fedloom.version import VERSION

if TYPE_CHECKING:
    from fedloom.federation.course import Course

OPTIONS = {"deadline": "round_seconds", "patience": "wait_seconds", "forget": "forget_seconds",
           "examples": "most_examples", "norm": "most_norm"}  # fmt: skip
"""Rule → the option that sets it, where that is called otherwise."""
KeysFolder = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--keys", help="the folder of one's own key and certificates: see fedloom keys"),
]
Insecure = Annotated[bool, typer.Option("--insecure", help="no certificates: on this machine's own address only")]


@with_fields()
def server_command(
    file: File = None,
    out: Annotated[Path, typer.Option(help="folder of the run; begun again with it, the server goes on")] = Path(
        "served"
    ),
    listen: Annotated[str, typer.Option(help="host:port for participants")] = "127.0.0.1:8443",
    page: Annotated[str, typer.Option(help="host:port of the live page, or none")] = "127.0.0.1:8444",
    keys: KeysFolder = None,
    revoked: Annotated[Optional[Path], typer.Option(help="the authority's revoked.json")] = None,  # noqa: UP045
    insecure: Insecure = False,
    begin: Annotated[int, typer.Option(help="participants before the first round")] = 2,
    over: Annotated[float, typer.Option(help="how many more are asked than needed, as a factor")] = 1.3,
    quorum: Annotated[float, typer.Option(help="share of the needed updates below which a round is given up")] = 2 / 3,
    deadline_: Annotated[float, typer.Option("--round-seconds", help="seconds that a round may take")] = 600.0,
    late: Annotated[
        str, typer.Option(help="who has no time for all steps: dropped, or stopped (sends what it has)")
    ] = "dropped",
    patience_: Annotated[
        float, typer.Option("--wait-seconds", help="seconds to wait for more participants, and for them to come back")
    ] = 10.0,
    forget_: Annotated[
        float, typer.Option("--forget-seconds", help="seconds after which whoever has gone counts no more, until back")
    ] = 3600.0,
    most_examples: Annotated[int, typer.Option(help="more examples than this are not believed")] = 10_000_000,
    most_norm: Annotated[float, typer.Option(help="updates with a larger norm are refused")] = float("inf"),
    offences: Annotated[int, typer.Option(help="refused updates after which a participant is left out")] = 3,
    pardon: Annotated[Optional[list[str]], typer.Option(help="forget a participant's refused updates")] = None,  # noqa: UP045
    new_run: Annotated[
        bool,
        typer.Option("--new-run", help="begin anew where the journal is lost or damaged; the old files are kept"),
    ] = False,
    classes: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="without data here: how many classes, or their names: cat,dog"),
    ] = None,
    shape: Annotated[Optional[str], typer.Option(help="without data here: of one example: 28,28")] = None,  # noqa: UP045
    data_folder: DataFolder = None,
    quiet: Quiet = False,
    json_: Json = False,
    debug: Debug = False,
    **fields: Any,
) -> None:
    """Serve a run to real participants: they train where their data is, and send updates.

    The experiment says what is learned and how; its data is only what models are judged on. Participants prove who
    they are by certificates (fedloom keys). Killed at any moment and begun again with the same folder, the server goes
    on; Ctrl-C stops it in good order.

    Examples:
      fedloom server experiment.toml --keys keys/server --revoked keys/revoked.json --listen 0.0.0.0:8443 --out served

      fedloom server --insecure --clients 3 --begin 3 --fraction 1 --rounds 20
    """
    with told(debug):
        experiment = described(file, fields)
        rules = ruled(
            begin=begin, over=over, quorum=quorum, deadline=deadline_, patience=patience_, forget=forget_,
            examples=most_examples, norm=most_norm, offences=offences, late=late,
        )  # fmt: skip
        secured(keys, insecure)
        if revoked is None and keys is not None and (beside := keys.parent / "revoked.json").is_file():
            revoked = beside
        if revoked is None and keys is not None:
            warn(f"there is no {keys.parent / 'revoked.json'}, and --revoked names none: nobody is turned away for a "
                 "certificate that was revoked")  # fmt: skip
        if not new_run:
            check_folder(experiment, out)
        blind = bool(shape or classes)
        data = blank(experiment, shape, classes) if blind else judged(experiment, data_folder)
        show_columns(data, quiet or json_)
        run = served(
            experiment, rules, out, listen, None if page == "none" else page, keys, revoked, data, blind,
            pardon or [], quiet or json_, new_run,
        )  # fmt: skip
        figure = out / FIGURE
        if len(run.history):
            plot([(run.label, run.history)], against=["rounds"], file=figure)
            tell(quiet, json_, report.as_json(run) | as_json(data), report.summary(run), f"Figure: {figure}")
        if not run.finished:
            errors.print(f"Go on with the same command and --out {out}", style="yellow", soft_wrap=True)
            raise typer.Exit(130)


def judged(experiment: Experiment, data_folder: Path | None) -> FederatedData:
    """Return the data on which a server judges models."""
    return judging(experiment, federated(undealt(experiment), data_folder))


def show_columns(data: FederatedData, quiet: bool) -> None:
    """Print how each column of a table was read, on standard error."""
    for table in [] if quiet else tables(data.read_as):
        errors.print(table)


def served(
    experiment: Experiment,
    rules: Rules,
    out: Path,
    listen: str,
    page: str | None,
    keys: Path | None,
    revoked: Path | None,
    data: FederatedData,
    blind: bool,
    pardon: Sequence[str],
    quiet: bool,
    new_run: bool,
) -> Run:
    """Serve an experiment."""
    with network.extra():
        from fedloom.federation.hosting import Place, host
        from fedloom.federation.journal import Journal
        from fedloom.federation.recovery import JOURNAL, check_journal_is_there
    run = planned(experiment, rules, data, blind)

    def started(port: int, seen: int | None) -> None:
        write_text(out / EXPERIMENT, experiment.to_toml())  # the folder is this run's from now on
        if not quiet:
            host_ = listen.rpartition(":")[0]
            secure = "https" if keys else "http"
            shown = f"; page at {secure}://{page.rpartition(':')[0]}:{seen}" if page and seen else ""
            errors.print(f"Serving participants at {host_}:{port}{shown}", soft_wrap=True, highlight=False)

    place = Place(out, listen, page, keys, revoked, narrated(quiet, server=True), started, new_run)
    out.mkdir(parents=True, exist_ok=True)
    for name in pardon:
        check_journal_is_there(out)
        with closing(Journal(out / JOURNAL)) as journal:
            require(journal.pardon(name), "pardon", "a participant that has come", name)
    return host(run, place)


def planned(experiment: Experiment, rules: Rules, data: FederatedData, blind: bool) -> Course:
    """An experiment as a server's run, if it can be one."""
    with network.extra():
        from fedloom.federation.course import CLIENTS, OWN_MODELS, course
    for name in ("compute", "users", "engine", "noise", "rotation"):
        experiment.leave_alone(name, "over a network, where clients are real")
    experiment.leave_alone("every", "over a network, where every round is judged")
    judged = experiment.evaluate in (Experiment().evaluate, "test")
    require(judged, "evaluate", "test over a network, where nobody sees training data", experiment.evaluate)
    need = "unit or centred over a network, where nobody sees all data"
    require(experiment.inputs != "standard", "inputs", need, "standard")
    task, stop = experiment.build_task(data), experiment.stop()
    algorithm = experiment.build_algorithm()
    if blind or not algorithm.has_shared_model:
        prefix = OWN_MODELS if algorithm.is_personal else CLIENTS
        if stop.watches and stop.monitor is None:
            stop = dataclasses.replace(stop, monitor=f"{prefix}accuracy")
    label = f"{task.name} on {experiment.data}, {experiment.algorithm}"
    shown = None if blind else data
    try:
        return course(task, algorithm, seed=experiment.seed, data=shown, stop=stop, rules=rules, label=label,
                      more=about(experiment, data, blind))  # fmt: skip
    except ArgumentError as error:
        if error.argument != "algorithm":
            raise
        raise ArgumentError("algorithm", error.requirement, experiment.algorithm) from None  # as it was called here


@with_fields(DATA_GROUPS)
def client_command(
    server: Annotated[str, typer.Option(help="host:port of the server")] = "127.0.0.1:8443",
    keys: KeysFolder = None,
    insecure: Insecure = False,
    name: Annotated[str, typer.Option(help="what one is called, without certificates")] = "",
    part: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="to try things out: which client of the partition this one is"),
    ] = None,
    out: Annotated[Path, typer.Option(help="folder for what waits, and what is kept")] = Path("joined"),
    ready: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="a command; work is taken only while it succeeds (charging, idle, unmetered)"),
    ] = None,
    give_up: Annotated[float, typer.Option(help="seconds without a server after which one gives up")] = float("inf"),
    compress: Annotated[bool, typer.Option("--compress", help="compress files on their way")] = False,
    data_folder: DataFolder = None,
    quiet: Quiet = False,
    debug: Debug = False,
    **fields: Any,
) -> None:
    """Take part in a server's run. The data stays here; what the algorithm says is sent, and nothing else.

    What is learned and how is the server's to say; whose examples, and how they are split, is said here. Lost
    connections are found again, and updates that the server has not acknowledged are sent again.

    Examples:
      fedloom client --server train.example.org:8443 --keys clinic-a --data patients.csv --label outcome

      fedloom client --insecure --name a --data mnist --partition iid --clients 3 --part 0
    """
    with told(debug):
        secured(keys, insecure)
        require(not insecure or bool(name), "name", "given without certificates", name)
        data = mine(federated(owned(described(None, fields), part), data_folder), part)
        show_columns(data, quiet)
        with network.extra():
            from fedloom.federation.agreement import aligned
            from fedloom.federation.joining import Way, join
            from fedloom.federation.trainer import LocalTrainer
        trainer = LocalTrainer(data, lambda said: built(said, aligned(said, data)), aligned)
        way = Way(
            server, out / (name or (keys.name if keys else "")), keys, name, willing(ready), give_up, compress,
            narrated(quiet, server=False),
        )  # fmt: skip
        done = join(trainer, way, VERSION)
        if not quiet:
            errors.print(f"Over: {printable(done.why)}", soft_wrap=True, highlight=False, markup=False)
        if done.model:
            from safetensors.numpy import save_file

            file = way.folder / "model.safetensors"
            save_file({n.removeprefix("variables."): a for n, a in done.model.items()}, file)
            tell(quiet, False, None, f"Model: {file}")


def status_command(
    folder: Annotated[Path, typer.Argument(help="the folder of a served run")] = Path("served"),
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """How a served run stands, from its folder; its server may be there or not."""
    with told(debug):
        with network.extra():
            from fedloom.federation.hosting import standing
        found = standing(folder)
        tell(False, json_, found, *shown(found))


def shown(found: Mapping[str, Any]) -> list[Any]:
    """A run's standing, as tables."""
    last = found["history"][-1] if found["history"] else {}
    metrics = headline(last)
    people = Table("participant", "rounds counted", "last", "refused")
    for one in found["participants"]:
        last_round = "–" if one["counted"] < 0 else str(one["counted"] + 1)
        people.add_row(one["name"], str(one["rounds"]), last_round, str(one["offences"]))
    done = f"{found['round']:,} rounds done, {found['state']}, {found['voids']:,} void, {found['aborted']:,} given up"
    lines: list[Any] = [f"run {found['run']}: {done}{'; ' + metrics if metrics else ''}", people]
    if found["void"]:
        void = Table("void", "round", "updates of", "why")
        for one in found["void"][:20]:
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one["time"]))
            void.add_row(when, str(one["round"] + 1), ", ".join(one["names"]), Text(printable(one["why"])))
        lines.append(void)
    if found["refused"]:
        refused = Table("refused", "round", "participant", "why")
        for one in found["refused"][:20]:
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one["time"]))
            refused.add_row(when, str(one["round"] + 1), one["name"], Text(printable(one["why"])))
        lines.append(refused)
    return lines


def ruled(**rules: Any) -> Rules:
    """The rules, or an error that calls them as the options are called."""
    try:
        return Rules(**rules)
    except ArgumentError as error:
        raise ArgumentError(OPTIONS.get(error.argument, error.argument), error.requirement, error.value) from None


def secured(keys: Path | None, insecure: bool) -> None:
    """Raise an :class:`ArgumentError` unless it is clear whether anything is secured."""
    require((keys is None) == insecure, "keys", "a folder that fedloom keys issue made (or say --insecure)", keys)


def willing(command: str | None) -> Callable[[], bool]:
    """Whether work may be taken: while a command succeeds."""
    if command is None:
        return lambda: True
    import subprocess

    def ask() -> bool:
        return subprocess.run(command, shell=True, timeout=10, capture_output=True).returncode == 0

    return ask


def narrated(quiet: bool, server: bool) -> Log:
    """What happens, in a line each for people who watch."""

    def tell(event: str, **fields: Any) -> None:
        text = SAID.get((server, event))
        if text is not None and not quiet:
            errors.print(printable(text(fields)), soft_wrap=True, highlight=False, markup=False)
            sys.stderr.flush()

    return tell


def _closed(f: Mapping[str, Any]) -> str:
    return f"round {f['round']}: {f['replies']} of {f['asked']} updates, after {f['seconds']:.1f} s; {headline(f)}"


def _unheard(why: str) -> str:
    """Why a server is not heard, as far as a participant can tell."""
    strange = "CERTIFICATE_VERIFY_FAILED" in why
    return "its certificate is not of the authority in ca.pem, or is for another host" if strange else "no server"


def headline(row: Mapping[str, float]) -> str:
    """The metrics of a round, in a line."""
    return ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in row.items()
                     if metric_of(name))  # fmt: skip


SAID: dict[tuple[bool, str], Callable[[Mapping[str, Any]], str]] = {
    (True, "came"): lambda f: f"{f['name']} has come (number {f['number']})",
    (True, "left"): lambda f: f"{f['name']} has left: {f['why']}",
    (True, "closed"): _closed,
    (True, "waiting"): lambda f: f"waiting: {f['why']}",
    (True, "void"): lambda f: (
        f"round {f['round'] + 1} is void: {f['why']}; the model before it stays; updates of "
        f"{', '.join(f['participants'])} were in it"
        if "why" in f
        else f"round {f['round'] + 1} is given up: {f['updates']} updates; it begins again"
    ),
    (True, "refused"): lambda f: f"an update of {f['name']} is refused: {f['why']}",
    (True, "trouble"): lambda f: f"trouble: {f['why']}",
    (True, "turned away"): lambda f: f"somebody is turned away: {f['why']}",
    (False, "welcome"): lambda f: f"in, as number {f['number']}",
    (False, "training"): lambda f: f"round {f['round'] + 1}: training",
    (False, "verdict"): lambda f: (
        f"round {f['round'] + 1}: {f['outcome'].lower()}{': ' + f['why'] if f['why'] else ''}"
    ),
    (False, "lost"): lambda f: f"{_unheard(f['why'])} ({f['why']}); again in {f['again']:.1f} s",
}
