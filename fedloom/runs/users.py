"""Users: how each client of a round did on its own test data before and after its work, and pictures of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedloom.errors import FedloomError, UnknownName
from fedloom.runs.history import lower_is_better
from fedloom.style import STYLE, save

WORST = 0.1  # the share of users that do worst
QUANTILES = (0.1, 0.5, 0.9)
NOTED = ("round", "client", "mixing")  # what is no measure
MOMENTS = {"before": "before fitting", "after": "after fitting", "global": "after fitting, on everybody's data"}


@dataclass(frozen=True)
class Users:
    """How each client did in the rounds that were evaluated, one entry a round.

    Arguments:
        columns: ``round``; ``client``, who took part; each measure of them on their own test data, such as
            ``before_accuracy`` and ``after_loss``; ``global_accuracy``, of their models after their work on everybody's
            test data; and ``mixing``, the matrix M, where every user has its own model and they are not too many.

    >>> users = Users() + {"round": 1, "client": np.array([4, 2]), "after_accuracy": np.array([0.5, 1.0])}
    >>> users.last("after_accuracy").tolist()
    [0.5, 1.0]
    """

    columns: Mapping[str, tuple[np.ndarray, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.columns["round"]) if self.columns else 0

    def __add__(self, row: Mapping[str, Any]) -> Users:
        return Users({name: (*self.columns.get(name, ()), np.asarray(value)) for name, value in row.items()})

    @property
    def measures(self) -> tuple[str, ...]:
        """What was measured of each."""
        return tuple(name for name in self.columns if name not in NOTED)

    def column(self, name: str) -> tuple[np.ndarray, ...]:
        """A measure of each client, an array a round."""
        if name not in self.columns:
            raise UnknownName("what was measured of users", name, self.measures)
        return self.columns[name]

    def last(self, name: str) -> np.ndarray:
        """A measure of each client in the last round."""
        return self.column(name)[-1]

    def before(self, round: int) -> Users:
        """What was measured before a round."""
        many = sum(int(r) < round for r in self.columns.get("round", ()))
        return Users({name: values[:many] for name, values in self.columns.items()} if many else {})

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything as arrays, rounds along the first axis."""
        return {name: np.stack(values) for name, values in self.columns.items()}


def from_arrays(arrays: Mapping[str, np.ndarray]) -> Users:
    """Users from what :meth:`Users.arrays` gave."""
    return Users({name: tuple(values) for name, values in arrays.items()})


def summary(row: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Of each measure of a round's users: the mean, quantiles, and the mean over the tenth that does worst. Who has
    nothing to be measured on, or whose model has ceased to be numbers, does not count.

    >>> row = {"client": np.arange(10), "after_accuracy": np.arange(10) / 10}
    >>> found = summary(row)
    >>> found["users_after_accuracy"], found["users_after_accuracy_worst"], found["users_after_accuracy_q50"]
    (0.45, 0.0, 0.45)
    """
    told: dict[str, float] = {}
    for name, values in row.items():
        real = values[np.isfinite(values)] if name not in NOTED else np.array([])
        if len(real):
            told[f"users_{name}"] = float(real.mean())
            told |= {f"users_{name}_q{round(100 * q)}": float(np.quantile(real, q)) for q in QUANTILES}
            told[f"users_{name}_worst"] = worst(name, real)
    return told


def worst(name: str, values: np.ndarray) -> float:
    """The mean of a measure over the tenth of users that does worst, at least one.

    >>> worst("after_accuracy", np.array([0.9, 0.2, np.nan, 0.5]))
    0.2
    """
    real = np.sort(values[np.isfinite(values)])
    many = max(1, round(WORST * len(real)))
    return float((real[-many:] if lower_is_better(name) else real[:many]).mean())


def present(row: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A round's entry in the order of clients, without the places that nobody took."""
    order = np.argsort(row["client"], kind="stable")
    order = order[row["client"][order] >= 0]
    return {name: values if name == "mixing" else values[order] for name, values in row.items()}


def bands(runs: Sequence[tuple[str, Users]], metric: str = "accuracy", file: str | Path | None = None) -> Figure:
    """Draw how users fare: against rounds, the mean and the band between the quantiles, before and after fitting; and
    the distribution over users in the last round. A row a run.

    Arguments:
        runs: (label, users) pairs.
        metric: ``accuracy`` or ``loss``.
        file: where to save the figure (png, pdf, svg).
    """
    for label, users in runs:
        if not len(users):
            raise FedloomError(f"{label} measured no users: run it with users")
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.4, 3.4 * len(runs)), layout="constrained")
        grid = figure.subplots(len(runs), 2, squeeze=False, sharey="row", width_ratios=(2, 1))
        for (left, right), (label, users) in zip(grid, runs, strict=True):
            shown = {m: f"{m}_{metric}" for m in MOMENTS if f"{m}_{metric}" in users.columns}
            if not shown:
                raise UnknownName("metric", metric, {name.split("_", 1)[1] for name in users.measures})
            for i, (moment, name) in enumerate(shown.items()):
                _band(left, users, name, MOMENTS[moment], f"C{i}")
            left.set(xlabel="rounds of communication", ylabel=metric, title=f"{label}: mean, and 10–90 % of users")
            left.xaxis.set_major_locator(MaxNLocator(integer=True))
            left.legend(loc="best", fontsize="small")
            _violins(right, [users.last(name) for name in shown.values()], list(shown), metric)
            right.set_title(f"users in round {int(users.columns['round'][-1]):,}")
        if file:
            save(figure, file)
    return figure


def _band(axes: Any, users: Users, name: str, label: str, colour: str) -> None:
    rounds = [int(r) for r in users.columns["round"]]
    low, high = (np.array([np.nanquantile(v, q) for v in users.column(name)]) for q in (QUANTILES[0], QUANTILES[-1]))
    axes.fill_between(rounds, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(rounds, [np.nanmean(v) for v in users.column(name)], color=colour, label=label)


def _violins(axes: Any, values: Sequence[np.ndarray], labels: Sequence[str], metric: str) -> None:
    real = [v[~np.isnan(v)] for v in values]
    places = np.arange(1, len(real) + 1)
    for i, (place, v) in enumerate(zip(places, real, strict=True)):
        if len(v) > 1 and np.ptp(v) > 0:
            drawn = axes.violinplot(v, positions=[place], widths=0.8, showextrema=False)
            drawn["bodies"][0].set(facecolor=f"C{i % 6}", alpha=0.3)
        axes.boxplot(v, positions=[place], widths=0.18, showfliers=len(v) < 300, flierprops={"markersize": 2})
    axes.set_xticks(places, labels)
    axes.set_ylabel(metric)


def violins(
    runs: Sequence[tuple[str, Users]],
    measures: Sequence[str] = ("before_accuracy", "after_accuracy"),
    file: str | Path | None = None,
) -> Figure:
    """Draw the distribution of measures over users in the last round, several runs side by side; a row a measure.

    Arguments:
        runs: (label, users) pairs.
        measures: such as ``after_accuracy``.
        file: where to save the figure.
    """
    with mpl.rc_context(STYLE):
        size = max(4.0, 1.1 * len(runs)), 0.8 + 2.6 * len(measures)
        figure = Figure(figsize=size, layout="constrained")
        rows = figure.subplots(len(measures), 1, squeeze=False, sharex=True)[:, 0]
        for axes, measure in zip(rows, measures, strict=True):
            moment, metric = measure.split("_", 1)
            _violins(axes, [users.last(measure) for _, users in runs], [label for label, _ in runs], metric)
            axes.set_title(MOMENTS.get(moment, moment), fontsize="medium")
        rows[-1].tick_params(axis="x", rotation=30)
        if file:
            save(figure, file)
    return figure


def mixing(users: Users, file: str | Path | None = None, panels: int = 4) -> Figure:
    """Draw the mixing matrix over rounds: row i is what user i's next model is made of.

    Arguments:
        users: of a run in which every user has its own model.
        file: where to save the figure.
        panels: how many rounds are shown, from the first to the last.
    """
    if "mixing" not in users.columns:
        raise FedloomError("no mixing matrix was recorded: users have no models of their own, or are too many")
    matrices, rounds = users.column("mixing"), users.column("round")
    chosen = np.unique(np.linspace(0, len(matrices) - 1, panels).round().astype(int))
    top = max(float(matrices[i].max()) for i in chosen)
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        figure = Figure(figsize=(3.2 * len(chosen) + 0.8, 3.4), layout="constrained")
        row = figure.subplots(1, len(chosen), squeeze=False)[0]
        for axes, i in zip(row, chosen, strict=True):
            image = axes.imshow(matrices[i], cmap="magma_r", vmin=0, vmax=top)
            axes.set(title=f"round {int(rounds[i]):,}", xlabel="model of user")
        row[0].set_ylabel("in user's next model")
        figure.colorbar(image, ax=list(row), shrink=0.8, label="share")
        if file:
            save(figure, file)
    return figure
