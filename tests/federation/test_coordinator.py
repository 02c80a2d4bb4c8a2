"""What a server decides, call by call."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from weather import TINY, Memory, database, tiny

import fedloom as fl
from fedloom.errors import CheckpointError
from fedloom.federation.arithmetic import Arithmetic, arithmetic
from fedloom.federation.coordinator import Coordinator
from fedloom.federation.course import Course
from fedloom.federation.disk import digest
from fedloom.federation.journal import Journal
from fedloom.federation.points import nothing
from fedloom.federation.rules import Rules
from fedloom.federation.schema import Unfit
from fedloom.federation.status import status
from fedloom.federation.wire import PROTOCOL
from fedloom.federation.wire_pb2 import Beat, Order, Update, Verdict
from fedloom.runs.stopping import Stop
from fedloom.selection import SELECTIONS, cohorts
from fedloom.trees import flatten

READY = Beat(protocol=PROTOCOL, ready=True, examples=10)
UNFIT = Beat(protocol=PROTOCOL, unfit=True)


class Desk:
    """A coordinator, a clock that stands still until it is moved, and what was posted to whom."""

    def __init__(
        self, rules: Rules | None = None, rounds: int = 2, arithmetic: Arithmetic | None = None, **identity: str
    ) -> None:
        self.rules, self.rounds, self.arithmetic = rules or Rules(begin=2, pause=0.0), rounds, arithmetic or tiny(1.0)
        self.now, self.posted = 1000.0, dict[str, list[Order]]()
        self.posts: dict[str, Callable[[Order], None]] = {}
        self.events = list[tuple[str, dict[str, Any]]]()
        self.connection, self.disk = database(self), Memory(nothing)
        self.identity = identity
        self.begin()

    def begin(self) -> None:
        """Start, or start again after a crash."""
        course = Course(self.arithmetic, self.rules, Stop(self.rounds), lambda _: {}, "{}", self.identity)
        told = lambda event, **fields: self.events.append((event, fields))  # noqa: E731
        self.c = Coordinator(course, Journal(self.connection), self.disk, lambda: self.now, "run", told)

    def come(self, *names: str, beat: Beat = READY) -> None:
        for name in names:
            self.posted.setdefault(name, [])
            self.posts[name] = self.posted[name].append
            self.c.attend(name, beat, self.posts[name])

    def go(self, name: str) -> None:
        self.c.leave(name, self.posts[name])

    def tick(self, seconds: float = 0.0) -> None:
        """Time passes; whatever is due is done."""
        self.now += seconds
        for name in self.c.present:
            self.c.beat(name, READY)
        if job := self.c.tick():
            self.c.finish(job())
            self.c.tick()

    def waits(self) -> list[str]:
        """What it was said to wait for."""
        return [fields["why"] for event, fields in self.events if event == "waiting"]

    def kinds(self, name: str) -> list[str]:
        return [str(order.WhichOneof("what")) for order in self.posted[name]]

    def asked(self) -> set[str]:
        return set(self.c.opened.cohort) if self.c.opened else set()

    def update(
        self, name: str, w: float | np.ndarray = 1.0, *, examples: int = 10, push: bool = True, **changes
    ) -> Update:
        content = self.arithmetic.update_schema.content({"update.params.w": np.full(3, w, np.float32)})
        return self.message(name, content, examples, push, **changes)

    def message(self, name: str, content: bytes, examples: int = 10, push: bool = True, **changes) -> Update:
        assert self.c.opened is not None
        file = digest(content)
        if push:
            self.c.take(name, file, 0, len(content), content)
        told = {"run": "run", "round": self.c.opened.round, "attempt": self.c.opened.attempt, "file": file,
                "size": len(content), "examples": examples} | changes  # fmt: skip
        return Update(**told)

    def submit(self, name: str, update: Update) -> Verdict:
        if (verdict := self.c.known(name, update)) is not None:
            return verdict
        return self.c.decide(name, update, self.c.fault(name, update))

    def send(self, name: str, w: float = 1.0, **more) -> int:
        return self.submit(name, self.update(name, w, **more)).outcome

    def model(self) -> list[float]:
        return flatten(self.c.state.variables)["params.w"].tolist()


def test_a_round_begins_when_enough_have_come_and_ends_when_all_have_answered() -> None:
    desk = Desk()
    desk.come("a")
    desk.tick(100)
    assert desk.c.opened is None
    desk.come("b")
    desk.tick()
    assert desk.asked() == {"a", "b"} and desk.kinds("a") == ["welcome", "work"]
    assert desk.send("a", 1.0, examples=10) == desk.send("b", 4.0, examples=20) == Verdict.COUNTED
    desk.tick()
    assert desk.model() == pytest.approx([3.0] * 3)  # (10 · 1 + 20 · 4) / 30
    assert desk.c.round == 1 and desk.c.opened is not None
    row = desk.c.history.rows[-1]
    assert (row["round"], row["replies"], row["asked"]) == (1, 2, 2)


def test_the_run_ends_after_its_rounds_and_everybody_is_told() -> None:
    desk = Desk(rounds=1)
    desk.come("a", "b")
    desk.tick()
    desk.send("a")
    desk.send("b")
    desk.tick()
    assert desk.c.stopped == "did 1 round"
    over = desk.posted["a"][-1].over
    assert (over.why, over.model, over.counted) == ("did 1 round", desk.c.model_file, 0)
    desk.come("late")
    assert desk.kinds("late") == ["welcome", "over"]


@pytest.mark.parametrize("selection", SELECTIONS)
def test_rounds_ask_the_simulation_s_cohorts(selection: str) -> None:
    sizes, rounds = [3, 9, 5, 7, 1, 4], 5
    server = arithmetic(TINY, fl.fedavg(fraction=1 / 3, selection=selection), 0)
    desk = Desk(Rules(begin=6, over=1.0, pause=0.0), rounds, server)
    for name, examples in zip("abcdef", sizes, strict=True):
        desk.come(name, beat=Beat(protocol=PROTOCOL, ready=True, examples=examples))
    expected = cohorts(selection, np.array([0], np.uint32), np.arange(rounds), np.array(sizes), 2)[:, 0]
    for cohort in expected:
        desk.c.tick()
        assert desk.c.opened is not None
        assert desk.c.opened.cohort == tuple("abcdef"[client] for client in cohort)
        assert [desk.send(name) for name in desk.c.opened.cohort] == [Verdict.COUNTED] * 2
        job = desk.c.tick()
        assert job is not None
        desk.c.finish(job())


def test_more_are_asked_than_needed_and_the_first_count() -> None:
    desk = Desk(Rules(begin=10, over=1.5), arithmetic=arithmetic(TINY, fl.fedavg(fraction=0.2), 0))
    names = [f"p{i}" for i in range(10)]
    desk.come(*names)
    desk.tick()
    assert len(desk.asked()) == 3
    preference = desk.arithmetic.preference(0, [1] * 10)[:3]
    assert desk.asked() == {names[i] for i in preference}  # those whom the simulation would have, first
    first, second, third = desk.c.opened.cohort  # type: ignore[union-attr]
    assert desk.send(third) == desk.send(first) == Verdict.COUNTED
    late = desk.update(second)
    desk.tick()
    assert desk.submit(second, late).outcome == Verdict.LATE
    assert {m.name for m in desk.c.members.values() if m.rounds} == {first, third}


def test_whoever_leaves_is_not_waited_for_if_enough_have_answered() -> None:
    desk = Desk(Rules(begin=3, quorum=0.5, patience=0.0))
    desk.come("a", "b", "c")
    desk.tick()
    desk.send("a")
    desk.send("b")
    desk.tick()
    assert desk.c.round == 0  # one may still answer
    desk.go("c")
    desk.tick()
    assert desk.c.round == 1


def test_whoever_comes_back_is_asked_again() -> None:
    desk = Desk(Rules(begin=2, quorum=1.0))
    desk.come("a", "b")
    desk.tick()
    desk.go("b")
    desk.come("b")
    assert desk.kinds("b") == ["welcome", "work", "welcome", "work"]


def test_below_the_quorum_a_round_is_void_and_begins_again() -> None:
    desk = Desk(Rules(begin=3, quorum=1.0, deadline=60.0, pause=5.0))
    desk.come("a", "b", "c")
    desk.tick()
    before, late = desk.c.model_file, desk.update("b")
    desk.send("a")
    desk.tick(61)
    assert desk.c.opened is None and desk.c.journal.voided() == 1
    assert desk.c.model_file == before and desk.model() == [0.0] * 3
    desk.tick(1)
    assert desk.c.opened is None  # there is a pause first
    desk.tick(5)
    assert desk.c.opened is not None and (desk.c.opened.round, desk.c.opened.attempt) == (0, 1)
    assert desk.submit("b", late).outcome == Verdict.LATE  # of the attempt before


def test_time_is_up_with_enough_updates() -> None:
    desk = Desk(Rules(begin=3, quorum=0.6, deadline=60.0))
    desk.come("a", "b", "c")
    desk.tick()
    desk.send("a", 2.0)
    desk.send("b", 2.0)
    desk.tick(61)
    assert desk.c.round == 1 and desk.model() == [2.0] * 3


def test_an_update_counts_once() -> None:
    desk = Desk()
    desk.come("a", "b")
    desk.tick()
    update = desk.update("a", 1.0)
    assert desk.submit("a", update).outcome == desk.submit("a", update).outcome == Verdict.COUNTED
    assert desk.send("a", 5.0) == Verdict.LATE  # it has changed its mind
    desk.send("b", 1.0)
    desk.tick()
    assert desk.model() == [1.0] * 3
    assert desk.submit("a", update).outcome == Verdict.LATE  # replayed in the next round
    assert desk.submit("a", replace_round(update, 1)).outcome == Verdict.MISSING
    assert [m.rounds for m in desk.c.members.values()] == [1, 1]


def replace_round(update: Update, round: int) -> Update:
    other = Update()
    other.CopyFrom(update)
    other.round = round
    return other


@pytest.mark.parametrize(
    ("arrays", "examples", "why"),
    [
        ({"update.params.w": np.array([1, np.nan, 1], np.float32)}, 10, "numbers that are not finite"),
        ({"update.params.w": np.full(3, np.inf, np.float32)}, 10, "numbers that are not finite"),
        ({"update.params.w": np.ones(1, np.float32)}, 10, r"float32 of shape (1,), not float32 of shape (3,)"),
        ({"update.params.w": np.ones(3, np.float64)}, 10, r"float64 of shape (3,)"),
        ({"update.params.v": np.ones(3, np.float32)}, 10, "it lacks update.params.w"),
        ({"update.params.w": np.ones(3, np.float32), "z": np.ones(1, np.float32)}, 10, "it has z too"),
        ({"update.params.w": np.full(3, 1e6, np.float32)}, 10, "its norm is 1.73205e+06; at most 100 is believed"),
        ({"update.params.w": np.ones(3, np.float32)}, 0, "it claims 0 examples"),
        ({"update.params.w": np.ones(3, np.float32)}, 10**15, "it claims 1,000,000,000,000,000 examples"),
    ],
)
def test_a_bad_update_is_refused_and_remembered(arrays: dict[str, np.ndarray], examples: int, why: str) -> None:
    from safetensors.numpy import save

    desk = Desk(Rules(begin=2, norm=100.0, quorum=0.5, patience=0.0))
    desk.come("a", "b")
    desk.tick()
    verdict = desk.submit("a", desk.message("a", save(arrays), examples))
    assert verdict.outcome == Verdict.REFUSED and why in verdict.why
    assert desk.c.journal.refusals()[0].why == verdict.why and desk.c.members["a"].offences == 1
    assert not [name for name in desk.disk.names() if name.endswith(".part")]
    desk.send("b", 7.0)
    desk.tick()
    assert desk.model() == [7.0] * 3


def test_what_is_no_safetensors_file_is_refused() -> None:
    desk = Desk()
    desk.come("a", "b")
    desk.tick()
    assert "not a safetensors file" in desk.submit("a", desk.message("a", b"\xff" * 40)).why


def test_too_many_bad_updates_and_one_is_left_out_for_good() -> None:
    desk = Desk(Rules(begin=3, quorum=0.5, patience=0.0, pause=0.0), rounds=9)
    desk.come("a", "b", "c")
    for _ in range(3):
        desk.tick()
        desk.submit("a", desk.message("a", b"nonsense" * 4))
        desk.send("b")
        desk.send("c")
        desk.tick()
    assert "a" not in desk.c.present and desk.posted["a"][-1].refusal.again == 0
    assert desk.asked() == {"b", "c"}
    desk.come("a")
    assert "takes no part any more" in desk.posted["a"][-1].refusal.why
    assert desk.c.journal.pardon("a")
    desk.begin()
    desk.come("a")
    assert "a" in desk.c.present


def test_larger_files_than_an_update_can_be_are_not_taken() -> None:
    desk = Desk()
    desk.come("a", "b")
    desk.tick()
    most = desk.arithmetic.update_schema.most
    with pytest.raises(Unfit, match=r"the largest has"):
        desk.c.take("a", "0" * 64, 0, most + 1, b"x")
    with pytest.raises(Unfit, match=r"the largest has"):
        desk.c.take("a", "0" * 64, 90, 100, b"x" * 11)
    assert desk.c.take("a", "0" * 64, 50, 100, b"x") == 0  # it begins at 0


def test_a_push_goes_on_where_it_stopped() -> None:
    desk = Desk()
    desk.come("a", "b")
    desk.tick()
    content = desk.arithmetic.update_schema.content({"update.params.w": np.ones(3, np.float32)})
    file, half = digest(content), len(content) // 2
    assert desk.c.take("a", file, 0, len(content), content[:half]) == half == desk.c.held("a", file).start
    assert desk.c.take("a", file, half, len(content), content[half:]) == len(content)
    assert desk.submit("a", desk.message("a", content, push=False)).outcome == Verdict.COUNTED


def test_a_file_that_is_not_what_its_name_says_must_come_again() -> None:
    desk = Desk()
    desk.come("a", "b")
    desk.tick()
    update = desk.update("a", push=False)
    desk.c.take("a", update.file, 0, update.size, bytes(update.size))
    with pytest.raises(FileNotFoundError):
        desk.c.fault("a", update)
    assert desk.c.garbled("a").outcome == Verdict.MISSING
    assert desk.c.members["a"].offences == 0 and desk.c.held("a", update.file).start == 0


def test_silence_is_leaving() -> None:
    desk = Desk(Rules(begin=2, beat=2.0, missed=3, patience=0.0))
    desk.come("a", "b")
    desk.now += 5.9
    desk.c.tick()
    assert set(desk.c.present) == {"a", "b"}
    desk.c.beat("a", READY)
    desk.now += 0.2
    desk.c.tick()
    assert set(desk.c.present) == {"a"} and desk.posted["b"][-1].refusal.again > 0
    desk.c.forgive(100.0)
    desk.now += 100.0
    desk.c.tick()
    assert set(desk.c.present) == {"a"}


def test_whoever_has_gone_for_long_counts_no_more_until_it_is_back() -> None:
    desk = Desk(Rules(begin=4, quorum=1.0, patience=10.0, forget=100.0))
    desk.come("a", "b", "c", "d")
    for name in "cd":
        desk.c.leave(name, desk.posts[name])
    desk.tick(100.0)
    assert desk.c.m == 4 and desk.c.opened is None
    desk.tick(0.1)
    assert desk.c.m == 2 and desk.asked() == {"a", "b"}
    desk.come("c")
    assert desk.c.m == 3


def test_of_all_that_were_forgotten_the_first_who_is_back_waits_for_others() -> None:
    desk = Desk(Rules(begin=2, quorum=1.0, patience=10.0, forget=100.0))
    desk.come("a", "b")
    for name in "ab":
        desk.c.leave(name, desk.posts[name])
    desk.now += 101.0
    desk.come("a")
    desk.tick(9.9)
    assert desk.c.m == 1 and desk.c.opened is None
    desk.come("b")
    desk.tick(0.1)
    assert desk.c.m == 2 and desk.asked() == {"a", "b"}


def test_whoever_takes_no_part_is_not_waited_for() -> None:
    desk = Desk(Rules(begin=2, patience=10.0))
    desk.come("west", "lab")
    for name in ("west", "lab"):
        assert desk.c.beat(name, UNFIT)
        assert desk.kinds(name)[-1] == "refusal"
    assert not desk.c.present and (desk.events[-1][0], desk.events[-1][1]["name"]) == ("left", "lab")
    desk.come("north")
    desk.tick(1.0)
    assert desk.c.opened is None  # two have not come
    desk.come("south")
    desk.tick()
    assert desk.asked() == {"north", "south"} and desk.c.m == 2
    desk.come("west")  # with other data
    assert desk.c.m == 3


def test_a_round_under_way_does_without_whoever_takes_no_part() -> None:
    desk = Desk(Rules(begin=2, quorum=1.0))
    desk.come("a", "b", "c")
    desk.tick()
    desk.send("a"), desk.send("b")
    desk.tick()
    assert desk.c.round == 0
    desk.c.beat("c", UNFIT)
    desk.tick()
    assert desk.c.round == 1 and desk.asked() == {"a", "b"}


def test_a_first_round_of_too_few_is_void_when_somebody_takes_no_part() -> None:
    desk = Desk(Rules(begin=2, pause=0.0), rounds=3)
    desk.come("west", "north")
    desk.tick()
    desk.send("north")
    desk.c.beat("west", UNFIT)
    desk.tick(1.0)
    assert desk.c.round == 0 and desk.c.opened is None and desk.c.lacking.endswith("first round, 1 have")
    desk.come("south")
    desk.tick()
    assert desk.asked() == {"north", "south"}


def test_whoever_takes_no_part_is_not_waited_for_after_a_crash_either() -> None:
    desk = Desk(Rules(begin=2, patience=10.0), rounds=5)
    desk.come("w", "l", "n", "s")
    for name in "wl":
        desk.c.beat(name, UNFIT)
    desk.begin()
    desk.come("n", "s")
    desk.tick(0.1)
    assert desk.asked() == {"n", "s"} and desk.c.m == 2
    desk.come("w")
    desk.begin()
    assert desk.c.roll.unfit == {"l"}


def test_what_an_older_connection_says_is_not_heard() -> None:
    desk = Desk()
    desk.come("a")
    older = desk.posts["a"]
    desk.come("a")
    newer = desk.posts["a"] = list[Order]().append
    desk.c.attend("a", READY, newer)
    assert not desk.c.beat("a", UNFIT, older) and "a" in desk.c.present
    assert desk.c.beat("a", UNFIT, newer) and "a" not in desk.c.present


def test_it_is_said_what_a_round_waits_for() -> None:
    desk = Desk(Rules(begin=2, quorum=1.0, patience=10.0, forget=100.0))
    desk.tick()
    assert desk.waits() == [] and desk.c.rest() == pytest.approx(10.0, abs=0.01)
    desk.tick(10.0)
    first = "2 participants must have come before the first round, 0 have"
    assert desk.waits() == [first] and status(desk.c)["why"] == first
    desk.tick(10.0)
    assert desk.waits() == [first]  # once
    desk.come("a", "b")
    desk.go("b")
    desk.tick(1.0)
    desk.tick(10.0)
    assert desk.waits()[1:] == [
        "2 participants must be there and ready, 1 are; not b, who would count no more after 100 seconds"
    ]
    desk.come("b")
    desk.tick()
    assert desk.asked() == {"a", "b"} and status(desk.c)["why"] == ""
    names = [f"c{i}" for i in range(7)]
    desk.come(*names)
    for name in names:
        desk.go(name)
    desk.send("a"), desk.send("b")
    desk.tick()
    assert "not c0, c1, c2, c3, c4 and 2 more, who" in status(desk.c)["why"]


def test_those_who_are_not_ready_are_not_asked() -> None:
    desk = Desk(Rules(begin=3, quorum=0.5, patience=10.0))
    desk.come("a", "b")
    desk.come("c", beat=Beat(protocol=PROTOCOL, ready=False))
    desk.c.tick()
    assert desk.c.opened is None  # the third may become ready
    desk.now += 5.0
    desk.c.beat("a", READY), desk.c.beat("b", READY), desk.c.beat("c", Beat(protocol=PROTOCOL, ready=False))
    desk.now += 5.1
    desk.c.tick()
    assert desk.asked() == {"a", "b"}


def test_the_newer_connection_of_a_participant_counts() -> None:
    desk = Desk()
    desk.come("a", "b")
    old = desk.posts["a"]
    desk.posted["a"] = []
    desk.come("a")
    desk.c.leave("a", old)
    assert "a" in desk.c.present


def test_another_protocol_and_too_many_are_told_so() -> None:
    desk = Desk(Rules(begin=1, connections=1))
    desk.come("old", beat=Beat(protocol=0, version="0.1"))
    assert "upgrade the participant's fedloom" in desk.posted["old"][0].refusal.why
    desk.come("new", beat=Beat(protocol=PROTOCOL + 1))
    assert "upgrade the server's fedloom" in desk.posted["new"][0].refusal.why
    desk.come("a", "b")
    assert desk.posted["b"][0].refusal.again > 0 and set(desk.c.present) == {"a"}


def test_after_a_crash_everything_stands_where_it_stood() -> None:
    desk = Desk(Rules(begin=2, quorum=1.0, patience=10.0))
    desk.come("a", "b")
    desk.tick()
    desk.send("a", 3.0)
    desk.begin()
    assert desk.c.received.keys() == {"a"} and desk.c.round == 0
    desk.tick(5.0)
    assert desk.c.opened is not None  # b has time to come back
    desk.come("a", "b")
    assert desk.kinds("a")[-1] == "welcome" and desk.kinds("b")[-1] == "work"
    desk.send("b", 3.0)
    desk.tick()
    assert desk.model() == [3.0] * 3
    state = desk.c.state_file
    desk.begin()
    assert desk.c.state_file == state and desk.model() == [3.0] * 3
    assert [m.number for m in desk.c.members.values()] == [0, 1]


def test_a_folder_of_another_run_is_not_gone_on_with() -> None:
    desk = Desk(model="a")
    desk.identity = {"model": "b"}
    with pytest.raises(CheckpointError, match=r"holds another run"):
        desk.begin()


def test_a_server_that_leaves_says_so() -> None:
    desk = Desk()
    desk.come("a", "b")
    desk.c.dismiss()
    for name in ("a", "b"):
        assert "going away" in desk.posted[name][-1].refusal.why and desk.posted[name][-1].refusal.again > 0


def test_updates_of_another_run_are_refused() -> None:
    desk = Desk()
    desk.come("a", "b")
    desk.tick()
    assert "another run" in desk.submit("a", desk.update("a", run="other")).why


def test_files_that_nobody_needs_go() -> None:
    desk = Desk(rounds=5)
    desk.come("a", "b")
    for w in (1.0, 2.0, 3.0):
        desk.tick()
        desk.send("a", w)
        desk.send("b", w)
        desk.tick()
    assert set(desk.disk.names()) == {desk.c.state_file, desk.c.model_file}


def test_status_says_who_does_what() -> None:
    desk = Desk(Rules(begin=2, quorum=1.0))
    desk.come("a", "b")
    desk.tick()
    desk.send("a")
    said = status(desk.c)
    assert (said["state"], said["round"], said["goal"], said["quorum"]) == ("training", 0, 2, 2)
    assert {one["name"]: one["state"] for one in said["participants"]} == {"a": "replied", "b": "working"}
    desk.go("b")
    assert {one["name"]: one["state"] for one in status(desk.c)["participants"]}["b"] == "gone"


def test_the_learned_model_is_measured_where_participants_are() -> None:
    desk = Desk()
    desk.come("a", "b")
    desk.tick()
    for name, right in (("a", 3.0), ("b", 6.0)):
        desk.send(name, measures={"accuracy": right, "count": 10.0})
    desk.tick()
    assert desk.c.history.last("clients_accuracy") == pytest.approx(0.45)


def test_rules_are_checked() -> None:
    for bad in ({"over": 0.5}, {"quorum": 0.0}, {"deadline": 0.0}, {"begin": 0}, {"norm": 0.0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            replace(Rules(), **bad)


def test_after_a_crash_a_round_does_not_wait_for_those_who_never_come_back() -> None:
    desk = Desk(Rules(begin=3, quorum=0.5, over=1.0, patience=10.0, pause=0.0))
    desk.come("a", "b", "c")
    desk.tick()
    assert desk.send("a") == Verdict.COUNTED
    desk.begin()
    desk.come("a", "b")
    assert desk.send("b") == Verdict.COUNTED
    desk.tick(9)
    assert desk.c.round == 0
    desk.tick(2)
    assert desk.c.round == 1


def test_two_participants_may_send_the_same_update() -> None:
    desk = Desk()
    desk.come("a", "b")
    desk.tick()
    assert desk.send("a", 2.0) == Verdict.COUNTED
    file = desk.c.received["a"].file
    assert desk.c.held("a", file).start > 0 and desk.c.held("b", file).start == 0
    assert desk.send("b", 2.0) == Verdict.COUNTED
    desk.tick()
    assert desk.model() == pytest.approx([2.0] * 3)


def test_only_the_silent_are_lost_and_another_push_takes_the_place_of_the_one_before() -> None:
    desk = Desk(Rules(begin=2, beat=2.0, missed=3, patience=0.0))
    desk.come("a", "b")
    desk.tick()
    part = desk.c.take("a", "0" * 64, 0, 100, b"x" * 50)
    assert part == 50 and desk.c.take("a", "1" * 64, 0, 100, b"y" * 10) == 10
    assert [name for name in desk.disk.names() if name.endswith(".part")] == [f"0-{'1' * 64}.part"]
    for _ in range(3):
        desk.now += 3
        assert not desk.c.beat("a", READY)
        desk.c.tick()
    assert list(desk.c.present) == ["a"] and desk.kinds("b")[-1] == "refusal"
    assert desk.c.beat("a", Beat(protocol=PROTOCOL, ready=False))
    assert desk.c.rest() == pytest.approx(6.001)
