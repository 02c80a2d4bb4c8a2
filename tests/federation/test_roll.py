"""Who takes part, and what a round lacks."""

import pytest
from weather import database

from fedloom.federation.journal import Journal
from fedloom.federation.roll import Presence, Roll
from fedloom.federation.rules import Rules
from fedloom.federation.wire_pb2 import Order

RULES = Rules(begin=2, quorum=1.0, patience=10.0, forget=100.0, offences=1)


@pytest.fixture
def roll() -> Roll:
    """Of four, a and b are there and ready, c has gone at 0, d takes no part."""
    made = Roll(RULES, Journal(database(RULES)), 0.0)
    for name in "abcd":
        made.come(name, 0.0)
        made.present[name] = Presence(True, 10, 0.0, list[Order]().append)
    for name in "cd":
        del made.present[name]
        assert not made.mark(name, False, 0.0)
    made.decline("d")
    return made


def test_who_counts(roll: Roll) -> None:
    assert (roll.ready, roll.fit, roll.counting(100.0), roll.gone(100.0)) == ({"a", "b"}, 3, 3, ["d"])
    assert (roll.counting(100.1), roll.gone(100.1)) == (2, ["c", "d"])
    assert roll.back_by() == [10.0]  # for c alone
    roll.accept("d")
    assert (roll.fit, roll.counting(100.0), roll.back_by()) == (4, 4, [10.0, 10.0])


def test_the_sizes_of_those_who_are_there(roll: Roll) -> None:
    roll.present["b"].examples = 10**15  # more than the rules believe
    assert roll.sizes() == [10, RULES.examples, 0, 0]


def test_after_so_many_offences_somebody_counts_no_more(roll: Roll) -> None:
    assert not roll.left_out("a") and roll.quarantined == 0
    assert roll.offend("a").offences == 1
    assert roll.left_out("a") and (roll.quarantined, roll.counting(1.0)) == (1, 2)
    roll.offend("a")
    assert roll.quarantined == 1


def test_what_a_round_lacks(roll: Roll) -> None:
    assert roll.lacking(True, 2, 1.0) == ""
    assert roll.lacking(False, 3, 1.0) == (
        "3 participants must be there and ready, 2 are; not c, who would count no more after 100 seconds"
    )
    for name in "bc":
        roll.decline(name)
    assert roll.lacking(True, 1, 1.0) == "2 participants must have come before the first round, 1 have"
    assert roll.lacking(False, 1, 1.0) == ""


def test_the_first_of_all_that_were_forgotten(roll: Roll) -> None:
    for name in "ab":
        del roll.present[name]
        roll.mark(name, False, 0.0)
    roll.present["a"] = Presence(True, 10, 200.0, list[Order]().append)
    assert roll.mark("a", True, 200.0)
    roll.present["b"] = Presence(True, 10, 200.0, list[Order]().append)
    assert not roll.mark("b", True, 200.0)  # a is there


def test_who_was_there_before(roll: Roll) -> None:
    again = Roll(RULES, roll.journal, 50.0)
    assert (list(again.members), again.unfit, set(again.away.values())) == (list("abcd"), {"d"}, {50.0})
