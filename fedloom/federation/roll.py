"""Roll: who takes part in a run, who of them is there, and what a round lacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fedloom.federation.journal import Journal, Member
from fedloom.federation.rules import Rules
from fedloom.federation.wire_pb2 import Order

NAMED = 5  # participants that are named among those for whom one waits


@dataclass
class Presence:
    """A participant that is there.

    Arguments:
        ready: whether it may be asked to work.
        examples: how many it says it has.
        seen: when it last gave a sign of life.
        post: sends it an order.
    """

    ready: bool
    examples: int
    seen: float
    post: Callable[[Order], None]


class Roll:
    """Who takes part, by name: the ``members`` that have ever come, those that are ``present``, since when those that
    cannot be asked are ``away``, and who said that it takes no part, since the run is ``unfit`` for it.

    Arguments:
        rules: who counts.
        journal: who has come before.
        now: since when they are all away.
    """

    def __init__(self, rules: Rules, journal: Journal, now: float) -> None:
        self.rules, self.journal = rules, journal
        self.present: dict[str, Presence] = {}
        self.members, self.unfit = journal.members(), journal.unfit()
        self.away = dict.fromkeys(self.members, now)
        self.quarantined = sum(member.offences >= rules.offences for member in self.members.values())

    def come(self, name: str, now: float) -> Member:
        """Somebody has come: as whom it is known."""
        member = self.members.get(name) or self.journal.join(name, now)
        self.members[name] = member
        return member

    def accept(self, name: str) -> None:
        """Whoever had said that it takes no part has come back."""
        if name in self.unfit:
            self.journal.accept(name)
            self.unfit.remove(name)

    def decline(self, name: str) -> None:
        """Somebody takes no part."""
        self.journal.decline(name)
        self.unfit.add(name)

    def offend(self, name: str) -> Member:
        """An update of somebody was refused: as whom it is known then."""
        self.members[name] = member = replace(self.members[name], offences=self.members[name].offences + 1)
        self.quarantined += member.offences == self.rules.offences
        return member

    def mark(self, name: str, ready: bool, now: float) -> bool:
        """Note since when a participant cannot be asked, if it cannot; whether it is the first who is back of those
        that were all forgotten.
        """
        if not ready:
            self.away.setdefault(name, now)
            return False
        since = self.away.pop(name, now)
        others = (there.ready for other, there in self.present.items() if other != name)
        return now - since > self.rules.forget and not any(others)

    def left_out(self, name: str) -> bool:
        """Whether a participant is in quarantine."""
        return self.members[name].offences >= self.rules.offences

    @property
    def ready(self) -> set[str]:
        """Who can be asked."""
        return {name for name, there in self.present.items() if there.ready}

    def sizes(self) -> list[int]:
        """Return the number of examples that each participant says it has, in the order of their numbers.

        It is 0 for a participant that is away, and at most what the rules believe.
        """
        sizes = [0] * len(self.members)
        for name, there in self.present.items():
            sizes[self.members[name].number] = min(there.examples, self.rules.examples)
        return sizes

    @property
    def fit(self) -> int:
        """How many have come, and not said that they take no part."""
        return len(self.members) - len(self.unfit)

    def counting(self, now: float) -> int:
        """K: how many have come, and are neither forgotten nor in quarantine nor take no part."""
        return len(self.members) - self.quarantined - len(self.gone(now))

    def gone(self, now: float) -> list[str]:
        """Who counts no more, until it is back: whoever cannot be asked for long, or said that it takes no part."""
        forgotten = now - self.rules.forget
        return [name for name, since in self.away.items()
                if (since < forgotten or name in self.unfit) and not self.left_out(name)]  # fmt: skip

    def back_by(self) -> list[float]:
        """Until when one waits for those who cannot be asked; whoever has gone for good delays one round."""
        return [since + self.rules.patience for name, since in self.away.items()
                if name not in self.unfit and not self.left_out(name)]  # fmt: skip

    def lacking(self, first: bool, m: int, now: float) -> str:
        """What a round that is to have m updates, the first or another, waits for: nothing, or too few have come or are
        ready.
        """
        begin, enough, ready = self.rules.begin, self.rules.enough(m), len(self.ready)
        if first and self.fit < begin:
            return f"{begin:,} participants must have come before the first round, {self.fit:,} have"
        if ready >= enough:
            return ""
        gone = set(self.gone(now))
        idle = sorted(name for name in self.away if name not in gone and not self.left_out(name))
        shown = ", ".join(idle[:NAMED]) + f" and {len(idle) - NAMED:,} more" * (len(idle) > NAMED)
        forget = f"; not {shown}, who would count no more after {self.rules.forget:,.0f} seconds" if idle else ""
        return f"{enough:,} participants must be there and ready, {ready:,} are{forget}"
