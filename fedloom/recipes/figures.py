"""Figures: those of McMahan et al. (2017), drawn from what is recorded of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from fedloom.recipes.cell import ACCURACY, Cell, Outcome, Trial, star
from fedloom.recipes.series import Kept
from fedloom.style import COLOURS, STYLE, logarithmic

BATCHES = {"10": COLOURS[1], "50": COLOURS[4], "all": COLOURS[0]}
DASHES = ("-", "--", ":", "-.")
PANELS = {("cnn", "iid"): "MNIST CNN, IID", ("cnn", "shards"): "MNIST CNN, shards",
          ("lstm", "iid"): "Shakespeare LSTM, IID", ("lstm", "natural"): "Shakespeare LSTM, by role"}  # fmt: skip


def between(kept: Kept) -> Figure:
    """Figure 1: the training loss of mixtures of two models, begun independently and alike."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        for axes, (name, title) in zip(figure.subplots(1, 2), TITLES.items(), strict=True):
            theta, loss = kept.columns["theta"], kept.columns[name]
            ends = [float(np.interp(at, theta, loss)) for at in (0.0, 1.0)]
            axes.plot(theta, loss, color=COLOURS[0])
            axes.axhline(min(ends), color="grey", linewidth=0.8, linestyle=":", label="the better of the two")
            for at in (0.0, 1.0):
                axes.axvline(at, color="grey", linewidth=0.8)
            axes.set(title=title, xlabel="mixing weight θ", ylabel="loss on all training data")
            axes.legend(fontsize="small")
    return figure


TITLES = {"independent": "independent initialisation", "shared": "shared initialisation"}


def accuracies(cells: Sequence[Cell], outcomes: Mapping[str, Outcome]) -> Figure | None:
    """Figure 2 of some cells, as far as they are recorded; ``None`` if none is: the first seed at the best rate."""
    panels: dict[str, dict[tuple[int, str], Trial]] = {title: {} for title in PANELS.values()}
    targets = {}
    for cell in cells:
        if outcome := outcomes.get(cell.name):
            e, target = cell.experiment, cell.targets[-1]
            title = PANELS[e.model, e.partition]
            panels[title][int(e.epochs), str(e.batch_size or "all")] = outcome.chosen(target)[0]
            targets[title] = target
    return work({title: panels[title] for title in panels if title in targets}, targets) if targets else None


def work(panels: Mapping[str, Mapping[tuple[int, str], Trial]], targets: Mapping[str, float]) -> Figure:
    """Figure 2: test accuracy, best so far, against rounds, for every (E, B); each curve ends at the target.

    Arguments:
        panels: title → (E, B) → the run to draw.
        targets: title → where the grey line is.
    """
    with mpl.rc_context(STYLE):
        columns = 2
        rows = -(-len(panels) // columns)
        figure = Figure(figsize=(5 * columns, 3.8 * rows), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes, (title, trials) in zip(grid.flat, panels.items(), strict=False):
            epochs = sorted({e for e, _ in trials})
            for (e, b), trial in trials.items():
                style = {"color": BATCHES[b], "linestyle": DASHES[epochs.index(e)]}
                rounds, best = trial.history.column("round"), trial.history.so_far(ACCURACY)
                shown = f"E = {e}, B = {'∞' if b == 'all' else b}"
                after = rounds > 0  # a logarithmic axis has no 0
                axes.plot(rounds[after], best[after], label=shown, **style)
            target = targets[title]
            axes.axhline(target, color="grey", linewidth=0.8)
            low = target - (1 - target) * 3 if target > 0.9 else 0.4 * target
            axes.set(title=title, ylim=(low, target + (target - low) * 0.06), xscale="log", xlim=(1, None),
                     xlabel="rounds of communication", ylabel="test accuracy, best so far")  # fmt: skip
        for axes in list(grid.flat)[len(panels) :]:
            axes.set_axis_off()
        lines = {line.get_label(): line for axes in grid.flat for line in axes.lines if line.get_label()[0] != "_"}
        figure.legend(lines.values(), lines, loc="outside lower center", ncols=-(-len(lines) // 2))
    return figure


def epochs(panels: Mapping[str, Sequence[tuple[int, Kept]]]) -> Figure:
    """Figure 3: training loss against rounds, for more and more local epochs."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(4.6 * len(panels), 3.8), layout="constrained")
        for axes, (title, lines) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
            for i, (e, kept) in enumerate(lines):
                axes.plot(kept.columns["round"], kept.columns["train_loss"], color=COLOURS[i % 6],
                          label=f"E = {e}{star(kept.about)}")  # fmt: skip
            axes.set(title=title, xlabel="rounds of communication", ylabel="training loss")
            logarithmic(axes)
            axes.legend(fontsize="small")
    return figure


def depths(panels: Mapping[str, Sequence[tuple[int, Kept, int]]]) -> str:
    """What Figure 3 shows in words: the losses of each panel after the last round that all its curves have, but for
    those that diverged: they end before the rounds that they were to have, which come with them.
    """
    told = []
    for title, lines in panels.items():
        ends = {e: (kept.columns["round"][-1], rounds) for e, kept, rounds in lines}
        gone = {e: end for e, (end, rounds) in ends.items() if end < rounds}
        last = min((end for e, (end, _) in ends.items() if e not in gone), default=0)
        losses = {e: np.interp(last, kept.columns["round"], kept.columns["train_loss"])
                  for e, kept, _ in lines if e not in gone}  # fmt: skip
        each = [f"{losses[e]:#.3g}{star(kept.about)} with E = {e}" for e, kept, _ in lines if e in losses]
        each += [f"the lowest with E = {min(losses, key=losses.__getitem__)}"] if len(losses) > 1 else []
        each += [f"diverged after round {end:.0f} with E = {e}" for e, end in gone.items()]
        told.append(f"- {title}, round {last:.0f}: {', '.join(each)}.")
    return "\n".join(["Training losses after the last round that all curves have:", "", *told]) if told else ""


def rates(outcomes: Mapping[str, Outcome], targets: Sequence[float]) -> Figure:
    """Figure 4: CIFAR-10, test accuracy against rounds, for several learning rates of FedSGD and FedAvg."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 4.4), layout="constrained")
        axes = figure.subplots()
        for (name, outcome), colour in zip(outcomes.items(), (COLOURS[0], COLOURS[1]), strict=False):
            best = sorted(
                (t for t in outcome.trials if t.seed == 0 and t.best > targets[0] - 0.1), key=lambda t: -t.best
            )
            for trial, dashes in zip(best, DASHES, strict=False):
                label = f"{name}, η = {trial.lr:g}, decay {trial.decay:g}"
                h = trial.history
                axes.plot(h.column("round"), h.so_far(ACCURACY), color=colour, linestyle=dashes, label=label)
        for target in targets:
            axes.axhline(target, color="grey", linewidth=0.8)
        axes.set(xlabel="rounds of communication", ylabel="test accuracy, best so far", ylim=(0.5, 0.88))
        axes.legend(fontsize="small")
    return figure
