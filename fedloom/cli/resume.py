"""Resume: go on with a run or a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from fedloom.cli.experiments import CENTRAL, EXPERIMENT, Manner, go
from fedloom.cli.shared import DataFolder, Debug, Json, Quiet, told
from fedloom.cli.sweep import SWEEP, go_sweep
from fedloom.errors import CheckpointError
from fedloom.runs.experiment import Experiment
from fedloom.runs.plan import Plan
from fedloom.runs.result import holds_run


def resume(
    directory: Annotated[Path, typer.Argument(help="the folder of a run or a sweep")],
    rounds: Annotated[Optional[int], typer.Option(help="go on until this many rounds")] = None,  # noqa: UP045
    target: Annotated[Optional[str], typer.Option(help="go on until this test accuracy, or none")] = None,  # noqa: UP045
    data_folder: DataFolder = None,
    quiet: Quiet = False,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Go on with a run or a sweep that was stopped or killed; its numbers are those of a run left alone."""
    with told(debug):
        changes = {name: value for name, value in (("rounds", rounds), ("target", target)) if value is not None}
        if (directory / SWEEP).is_file():
            go_sweep(Plan.read(directory / SWEEP).changed(**changes), directory, Manner(quiet, json_, data_folder))
            return
        if holds_run(directory) and not (directory / EXPERIMENT).is_file():
            raise CheckpointError(f"{directory} holds a run that was begun in Python: there it goes on, by calling "
                                  f'fl.run(…, directory="{directory}") again')  # fmt: skip
        if not (directory / EXPERIMENT).is_file():
            raise CheckpointError(f"{directory} holds no run: there is no {EXPERIMENT}")
        experiment = Experiment.read(directory / EXPERIMENT).replace(**changes)
        go(experiment, directory, Manner(quiet, json_, data_folder), central=(directory / CENTRAL).is_dir())
