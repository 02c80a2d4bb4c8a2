"""Balance: what a ring gains and loses against a server, at equal rounds and at equal simulated time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedloom.recipes.part import Found
from fedloom.recipes.repeated import Estimate, estimate, measured_accuracies
from fedloom.recipes.ring_setting import CLOCKS, RIVALS, SETS, named
from fedloom.recipes.series import Kept
from fedloom.runs.history import from_rows


@dataclass(frozen=True)
class Balance:
    """What a method gains and loses against another.

    Args:
        name: the data set and the two methods.
        saved: for each clock, the share of time saved until the target.
        end: the difference of the final accuracies.
        at_equal_time: for each clock, the difference of accuracies at the end of the faster run.
    """

    name: str
    saved: tuple[float, ...]
    end: Estimate
    at_equal_time: Mapping[str, Estimate]


NOTHING = Balance("", (), Estimate(0.0, 0.0), {})


def balance(part: str, mine: str, other: str, found: Found) -> Balance | None:
    """Return what a method gains and loses against another on a data set, or None if that is not fully recorded."""
    title, _, target = SETS[part]
    there = {m: found.series[named(part, m)] for m in (mine, other) if named(part, m) in found.series}
    pairs = [saved(there, target, mine, other, name) for name in CLOCKS]
    shares = tuple(pair[1] for pair in pairs if pair and not np.isnan(pair[1]))
    if len(shares) < len(CLOCKS):
        return None
    ends = [measured_accuracies(there[m])[:, -1] for m in (mine, other)]
    equal = {name: estimate(list(a - b)) for name in CLOCKS
             for _, a, b in [accuracies_at_equal_time(there[mine], there[other], name)]}  # fmt: skip
    name = f"{title.split(':')[0]}: {mine} against {other}"
    return Balance(name, shares, estimate(list(ends[0] - ends[1])), equal)


def accuracies_at_equal_time(one: Kept, other: Kept, clock: str) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the time at which the faster of two runs ends, and the accuracies of both at that time for each seed."""
    times = [np.asarray(kept.columns[f"clock {clock}"]) for kept in (one, other)]
    end = float(min(t[-1] for t in times))
    values = [np.array([np.interp(end, t, curve) for curve in measured_accuracies(kept)])
              for t, kept in zip(times, (one, other), strict=True)]  # fmt: skip
    return end, values[0], values[1]


def levels(part: str, mine: str, other: str, clock: str, found: Found) -> tuple[float, float, float] | None:
    """Return the time at which the faster of two methods ends, and the mean accuracies of both at that time."""
    pair = [found.series.get(named(part, m)) for m in (mine, other)]
    if pair[0] is None or pair[1] is None:
        return None
    end, one, two = accuracies_at_equal_time(pair[0], pair[1], clock)
    return end, float(one.mean()), float(two.mean())


def reached(kept: Kept, target: float, name: str | None = None) -> Estimate | None:
    """Return the mean rounds, or seconds by a clock, until a test accuracy; None unless every seed reaches it."""
    places = kept.columns["round" if name is None else f"clock {name}"]
    found = []
    for curve in measured_accuracies(kept):
        history = from_rows({"round": at, "test_accuracy": a} for at, a in zip(places, curve, strict=True))
        found.append(history.crossing("test_accuracy", target))
    return None if None in found or not found else estimate([f for f in found if f is not None])


def final(kept: Kept) -> Estimate:
    """Return the final accuracy."""
    return estimate(list(measured_accuracies(kept)[:, -1]))


def whole(e: Estimate | None, digits: int = 0) -> str:
    """Return a number of rounds or seconds with its interval as text."""
    return "not reached" if e is None else f"{e.mean:.{digits}f} ± {e.half:.{digits}f}"


def saved(there: Mapping[str, Kept], target: float, method: str, other: str, name: str) -> tuple[float, float] | None:
    """Return the shares of time that a method saves against another: for one round, and until the target."""
    if method not in there or other not in there:
        return None
    mine, theirs = (there[m].columns[f"clock {name}"][-1] / there[m].columns["round"][-1] for m in (method, other))
    to_target = [reached(there[m], target, name) for m in (method, other)]
    if to_target[0] is None or to_target[1] is None:
        return 1 - mine / theirs, float("nan")
    return 1 - mine / theirs, 1 - to_target[0].mean / to_target[1].mean


def percent(share: float) -> str:
    """Return a share as text with its sign; a negative share is a loss."""
    return "–" if np.isnan(share) else f"{100 * share:+.0f} %"


def meaning(found: Found) -> str:
    """Return what the ring gains and loses, once all data sets are recorded."""
    balances = [balance(part, mine, other, found) for part in SETS for mine, other in RIVALS]
    rows = [b for b in balances if b is not None]
    if len(rows) < len(balances):
        return ""
    sooner = sum(min(b.saved) > 0 for b in rows)
    worse = sum(b.end.is_clear and b.end.mean < 0 for b in rows)
    lines = [f"| {b.name} | {percent(min(b.saved))} to {percent(max(b.saved))} | {b.end.points} |" for b in rows]
    times = [f"| {b.name} | {' | '.join(gap.points for gap in b.at_equal_time.values())} |" for b in rows]
    return f"""
The ring reaches the target sooner by every clock in {sooner} of {len(rows)} comparisons. At equal rounds it ends less
accurate in {worse} of {len(rows)}. Time saved is until the target: the smallest and the largest share over the clocks.
Differences are in points, paired by seed.

| | time saved | accuracy in the end, difference |
|---|---|---|
{chr(10).join(lines)}

At equal time the comparison differs. The second table compares accuracies at the moment when the faster run ends.
{equal_time(found)}

| at equal time | {" | ".join(CLOCKS)} |
|{"---|" * (1 + len(CLOCKS))}
{chr(10).join(times)}"""


def equal_time(found: Found) -> str:
    """Return where the ring and where the server is more accurate at equal time."""
    sentences = []
    for part, (title, *_) in SETS.items():
        gaps = [(mine, other, clock, gap) for mine, other in RIVALS
                for clock, gap in (balance(part, mine, other, found) or NOTHING).at_equal_time.items()]  # fmt: skip
        ring = sum(gap.is_clear and gap.mean > 0 for *_, gap in gaps)
        server = sum(gap.is_clear and gap.mean < 0 for *_, gap in gaps)
        sentences.append(
            f"{title.split(':')[0]}: the ring is more accurate in {ring} of {len(gaps)} cases and the server in "
            f"{server}; in the other {len(gaps) - ring - server} the interval contains zero."
        )
    if example := levels("mnist", "ring DPA-SGD", "FedAvg", "no delay", found):
        time, ring_level, server_level = example
        sentences.append(
            f"Without delays, after {time:.1f} s on MNIST, ring DPA-SGD has {ring_level:.2%} and FedAvg "
            f"{server_level:.2%}."
        )
    return "\n".join(sentences)
