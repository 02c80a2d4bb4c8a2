"""Rules: how rounds with real participants begin and end, and what is believed of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedloom.engines.clock import LATE
from fedloom.errors import choose, number, require, whole


@dataclass(frozen=True)
class Rules:
    """How rounds begin and end, and what is believed of participants.

    With m = max(C·K, 1), rounded, K the participants that have come, are neither forgotten nor in quarantine and have
    not said that they take no part, a round

        asks      ⌈over · m⌉ of those who are there and ready,
        ends      when m updates are there; or nobody is left to wait for, or time is up, and ⌈quorum · m⌉ are there,
        is given up when nobody is left or time is up below that: the model stays as it is, and the round begins again.

    A round whose updates leave no usable model is void; see :mod:`fedloom.federation.void`.

    Arguments:
        begin: so many participants must have come before the first round.
        over: how many more are asked than are needed, as a factor.
        quorum: the share of m without which a round is given up.
        deadline: seconds that a round may take.
        late: what becomes of a participant that has no time for all its steps: ``dropped``, its update does not count;
            or ``stopped``, it stops in time and sends what it has, with its number of steps.
        patience: seconds that one waits for a participant that has gone, or is not ready, before rounds begin without
            it; and for participants to come back after the server has been away.
        forget: seconds after which a participant that has gone, or is not ready, counts no more, until it is back.
        pause: seconds between a round that was given up and the next.
        beat: seconds between two signs of life.
        missed: so many missing in a row, and a participant is gone.
        examples: more than this many examples are not believed.
        norm: an update with a larger L2 norm is refused.
        offences: after so many refused updates a participant is in quarantine, until it is pardoned.
        connections: so many participants at once; others are told to come back later.

    >>> rules = Rules(quorum=0.5)
    >>> rules.asked(10), rules.enough(10), rules.enough(1)
    (13, 5, 1)
    """

    begin: int = 2
    over: float = 1.3
    quorum: float = 2 / 3
    deadline: float = 600.0
    patience: float = 10.0
    forget: float = 3600.0
    pause: float = 1.0
    beat: float = 2.0
    missed: int = 3
    examples: int = 10_000_000
    norm: float = math.inf
    offences: int = 3
    connections: int = 5_000
    late: str = "dropped"

    def __post_init__(self) -> None:
        whole("begin", self.begin, 1)
        number("over", self.over, "at least 1", lambda over: over >= 1)
        number("quorum", self.quorum, "above 0 and at most 1", lambda quorum: 0 < quorum <= 1)
        for name in ("deadline", "beat", "forget"):
            number(name, getattr(self, name), "above 0 seconds", lambda seconds: seconds > 0)
        for name in ("patience", "pause"):
            number(name, getattr(self, name), "at least 0 seconds", lambda seconds: seconds >= 0)
        for name in ("missed", "offences", "connections"):
            whole(name, getattr(self, name), 1)
        whole("examples", self.examples, 1, 2**31 - 1)
        require(self.norm > 0, "norm", "above 0", self.norm)
        choose("late", self.late, dict.fromkeys(LATE))

    @property
    def silence(self) -> float:
        """Seconds after which nobody is believed to be there any more."""
        return self.beat * self.missed

    def asked(self, m: int) -> int:
        """How many are asked where m are needed."""
        return math.ceil(self.over * m - 1e-9)

    def enough(self, m: int) -> int:
        """How many suffice."""
        return max(1, math.ceil(self.quorum * m - 1e-9))
