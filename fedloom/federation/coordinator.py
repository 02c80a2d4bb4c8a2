"""Coordinator: what a server decides. It knows no network and no clock but the one it is given: tests run it under any
weather.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from fedloom.errors import CheckpointError, FedloomError, require
from fedloom.federation.closing import Done, Job, close
from fedloom.federation.course import Course
from fedloom.federation.disk import Disk
from fedloom.federation.journal import STEPS, Journal, Member, Opened, Received, Refused, Void
from fedloom.federation.log import Log, silent
from fedloom.federation.recovery import begin_run, repair_model, sound_updates
from fedloom.federation.roll import Presence, Roll
from fedloom.federation.uploads import PART, Uploads
from fedloom.federation.void import LIMIT, exhausted
from fedloom.federation.wire import PROTOCOL
from fedloom.federation.wire_pb2 import Beat, Order, Over, Place, Refusal, Update, Verdict, Welcome, Work
from fedloom.runs.history import History, from_rows
from fedloom.runs.recorder import Decision, Recorder


class Coordinator:
    """A server's decisions.

    Arguments:
        course: what the run is.
        journal, disk: what it must not forget.
        clock: the time, in seconds since 1970.
        run: a name for a new run.
        log: told of what happens, by name.
    """

    def __init__(
        self,
        course: Course,
        journal: Journal,
        disk: Disk,
        clock: Callable[[], float],
        run: str,
        log: Log = silent,
    ) -> None:
        self.course, self.journal, self.disk, self.clock, self.log = course, journal, disk, clock, log
        self.rules, self.arithmetic = course.rules, course.arithmetic
        self.uploads = Uploads(disk, course.arithmetic, course.rules)
        self.all_heard_until = math.inf  # before then nobody can have been silent for too long
        self.said, self.silent_until = "", -math.inf  # what a round was last said to wait for; when that may be said
        self.late: dict[str, int] = {}  # updates that came too late since this process began, by name
        self.closing = False
        self.told: set[str] = set()  # who knows that the run is over
        self._resume(run)

    def _resume(self, run: str) -> None:
        """Stand where the journal says."""
        now = self.clock()
        if not self.journal.about():
            begin_run(self.journal, self.disk, self.arithmetic, run, self.course.identity, now)
        told = self.journal.about()
        there, here = json.loads(told["identity"]), json.loads(json.dumps(self.course.identity))
        differs = [name for name in {**here, **there} if there.get(name) != here.get(name)]
        if differs:
            was = ", ".join(f"{name} = {there.get(name)!r} there, {here.get(name)!r} here" for name in differs)
            raise CheckpointError(f"the folder holds another run ({was}): choose another folder")
        last = self.journal.last()
        self.run, self.began = told["run"], float(told["began"])
        self.state_file, self.model_file = (last.state, last.model) if last else (told["state"], told["model"])
        self.state = self.arithmetic.state(self.arithmetic.state_schema.arrays(self.disk.checked(self.state_file)))
        history = from_rows(self.journal.rows(), self.arithmetic.task.directions)
        self.recorder = Recorder(history, self.course.stop)
        self.roll = Roll(self.rules, self.journal, now)
        self.members, self.present = self.roll.members, self.roll.present
        self.round = last.round + 1 if last else 0
        done = f"at least {self.round:,}, which are done already (choose another folder to begin anew)"
        require(self.course.stop.rounds >= self.round, "rounds", done, self.course.stop.rounds)
        repair_model(self.disk, self.arithmetic, self.state, self.model_file)
        self.opened: Opened | None = None
        self.received: dict[str, Received] = {}
        self.expected: set[str] = set()
        self.before = float(last.row["seconds"]) if last else 0.0  # seconds that the run took before now
        self.since = now
        self.not_before = now
        self.back_by = now + self.rules.patience  # until then one waits for those who were there before a crash
        if standing := self.journal.opened():
            self.opened, self.received = standing  # whoever comes back is expected again: nobody else, in the end
            self.received = sound_updates(self.journal, self.disk, self.opened, self.received)
            self.opened = replace(self.opened, began=now)
        self.stopped = self._over_because(self.recorder.decide()) if len(history) else None
        self.uploads.clear()  # after a crash their ends may be anything
        self._tidy()

    def _tidy(self) -> None:
        """Take away files that nobody needs any more."""
        needed = {self.state_file, self.model_file, *(update.file for update in self.received.values())}
        for name in self.disk.names():
            if name not in needed and not name.endswith(PART):
                self.disk.remove(name)

    # Who is there

    def attend(self, name: str, beat: Beat, post: Callable[[Order], None]) -> bool:
        """A participant has come; whether it may stay. Orders are posted to it from now on."""
        if beat.protocol != PROTOCOL:
            older = "the participant's" if beat.protocol < PROTOCOL else "the server's"
            post(_refusal(f"protocol {beat.protocol} ({beat.version}) there, {PROTOCOL} here: upgrade {older} fedloom"))
            return False
        if name not in self.present and len(self.present) >= self.rules.connections:
            post(_refusal("so many are here that there is no room: come back later", again=30.0))
            return False
        member = self.roll.come(name, self.clock())
        if self.roll.left_out(name):
            post(_refusal(self._quarantine(name)))
            return False
        try:
            about = self.course.about_for(member.number, name)
        except FedloomError as error:
            self.log("turned away", name=name, why=str(error))
            post(_refusal("the server's file of epochs does not say how many this participant makes"))
            return False
        if known := self.present.get(name):
            known.post(_refusal("somebody else has come under the same name"))
        else:
            self.log("came", name=name, number=member.number)
        self.roll.accept(name)
        self.present[name] = Presence(beat.ready, beat.examples, self.clock(), post)
        self.all_heard_until = min(self.all_heard_until, self.clock() + self.rules.silence)
        self._mark(name, beat.ready)
        post(Order(welcome=Welcome(run=self.run, number=member.number, about=about, beat=self.rules.beat)))
        if self.stopped:
            post(self._over(member))
        elif self.opened and name in self.opened.cohort and name not in self.received:
            self.expected.add(name)
            self._ask(name)
        return True

    def beat(self, name: str, beat: Beat, post: Callable[[Order], None] | None = None) -> bool:
        """A sign of life, of whom orders are posted to that way, if that is said; whether something may be due then."""
        if (there := self.present.get(name)) is None or post not in (None, there.post):
            return False
        if beat.unfit:
            self.roll.decline(name)
            there.post(_refusal("the run does not fit: nobody waits for you"))
            self._lose(name, "it takes no part, since the run does not fit its data or its program")
            return True
        changed = there.ready != beat.ready
        there.ready, there.examples, there.seen = beat.ready, beat.examples, self.clock()
        self._mark(name, beat.ready)
        return changed

    def leave(self, name: str, post: Callable[[Order], None]) -> None:
        """A participant has gone, if it is still the one whom orders are posted to that way."""
        if (there := self.present.get(name)) and there.post is post:
            self._lose(name, "its connection has ended")

    def _mark(self, name: str, ready: bool) -> None:
        """Note whether a participant can be asked. The first who is back of those that were all forgotten makes no
        round of its own: others may be on their way.
        """
        now = self.clock()
        if self.roll.mark(name, ready, now):
            self.not_before = max(self.not_before, now + self.rules.patience)

    def _quarantine(self, name: str) -> str:
        return f"{self.members[name].offences} updates of {name} were refused: it takes no part any more"

    def _lose(self, name: str, why: str) -> None:
        del self.present[name]
        self._mark(name, ready=False)
        self.expected.discard(name)
        self.log("left", name=name, why=why)

    def _ask(self, name: str) -> None:
        """Ask a participant to work in the round that is under way."""
        assert self.opened is not None
        left = max(0.0, self.opened.began + self.rules.deadline - self.clock())
        self.present[name].post(
            Order(
                work=Work(
                    round=self.opened.round, attempt=self.opened.attempt, model=self.model_file,
                    size=self.disk.size(self.model_file), seconds=left, counted=self.members[name].counted,
                )
            )
        )  # fmt: skip

    def _over(self, member: Member) -> Order:
        self.told.add(member.name)
        size = self.disk.size(self.model_file)
        return Order(over=Over(why=self.stopped, model=self.model_file, size=size, counted=member.counted))

    # Files

    def readable(self, file: str) -> bool:
        """Whether participants may fetch a file: the model that stands."""
        return file == self.model_file

    def held(self, name: str, file: str) -> Place:
        """How many bytes of a file this participant has pushed."""
        mine = self.received.get(name)
        whole = mine.size if mine and mine.file == file else None
        return Place(start=whole or self.uploads.size(self._number(name), file))

    def take(self, name: str, file: str, start: int, size: int, content: bytes) -> int:
        """Some bytes of a file that a participant pushes; how many there are then. Raises :class:`Unfit` for what no
        update can be.
        """
        self.uploads.check(start, size, content)
        wanted = self.opened is not None and name in self.opened.cohort and name not in self.received
        if not wanted or self.closing or self.roll.left_out(name):
            return size  # nobody waits for it: what there is to say of it is said when it is submitted
        return self.uploads.take(self._number(name), file, start, content)

    def _number(self, name: str) -> int:
        return self.members[name].number

    # Updates

    def known(self, name: str, update: Update) -> Verdict | None:
        """What becomes of an update, as far as that can be told without looking into its file."""
        opened = self.opened
        if name not in self.members or update.run != self.run:
            return self.strange()
        if self.roll.left_out(name):
            return Verdict(outcome=Verdict.REFUSED, why=self._quarantine(name))
        have = self.received.get(name) if opened and update.round == opened.round else None
        if have and have.file == update.file:
            return Verdict(outcome=Verdict.COUNTED)
        current = opened and not self.closing and (update.round, update.attempt) == (opened.round, opened.attempt)
        if opened is None or not current or name not in opened.cohort or have:
            self.late[name] = self.late.get(name, 0) + 1
            return Verdict(outcome=Verdict.LATE, why="its round does without it")
        if self.uploads.size(self._number(name), update.file) != update.size:
            return Verdict(outcome=Verdict.MISSING, why="its file is not there whole")
        return None

    def strange(self) -> Verdict:
        """What becomes of an update of another run, or of somebody who has never come."""
        return Verdict(outcome=Verdict.REFUSED, why="another run: come again to learn which is under way")

    def fault(self, name: str, update: Update) -> str | None:
        """What is wrong with an update whose file is there: nothing, or why it is refused. Long, and without any
        effect; raises :class:`FileNotFoundError` where the file is not what its name says.
        """
        return self.uploads.fault(self._number(name), update)

    def garbled(self, name: str) -> Verdict:
        """An update's file is not what its name says: it must come again."""
        self.uploads.drop(self._number(name))
        return Verdict(outcome=Verdict.MISSING, why="its file is not what its name says")

    def decide(self, name: str, update: Update, fault: str | None) -> Verdict:
        """What becomes of an update, now that its file has been looked into."""
        if (already := self.known(name, update)) is not None:
            return already
        assert self.opened is not None
        if fault is not None:
            return self._refuse(name, fault)
        self.uploads.accept(self._number(name), update.file)
        read = {**update.readings, **({STEPS: float(update.steps)} if update.steps else {})}
        found = Received(name, update.file, update.size, update.examples, read, dict(update.measures))
        self.journal.receive(self.opened, found, self.clock())
        self.received[name] = found
        self.expected.discard(name)
        self.log("update", name=name, round=self.opened.round, examples=update.examples)
        return Verdict(outcome=Verdict.COUNTED)

    def _refuse(self, name: str, why: str) -> Verdict:
        """An update is refused; after too many, so is its sender."""
        assert self.opened is not None
        self.uploads.drop(self._number(name))
        self.journal.refuse(Refused(self.clock(), self.opened.round, name, why))
        member = self.roll.offend(name)
        self.expected.discard(name)
        self.log("refused", name=name, round=self.opened.round, why=why, offences=member.offences)
        if self.roll.left_out(name) and (there := self.present.get(name)):
            there.post(_refusal(self._quarantine(name)))
            self._lose(name, "it is in quarantine")
        return Verdict(outcome=Verdict.REFUSED, why=why)

    # Rounds

    def tick(self) -> Job | None:
        """Do what is due: lose those who are silent, begin a round, give one up. The work of closing one, if that is
        due, which :meth:`finish` takes back.
        """
        now = self.clock()
        if now > self.all_heard_until:
            self._miss(now)
        if self.stopped or self.closing:
            return None
        if self.opened is None:
            self._open(now)
            return None
        if self.round == 0 and self.roll.fit < self.rules.begin:
            self._void(now)  # somebody who had come for it takes no part
            return None
        m = self._needed()
        waited = now >= self.back_by and not self.expected  # after a crash, those asked before may still come back
        up = now >= self.opened.began + self.rules.deadline
        if len(self.received) >= m or ((waited or up) and len(self.received) >= self.rules.enough(m)):
            if now < self.not_before:
                return None
            self.closing = True
            return self._closing(self.opened, list(self.received.values()), now)
        if waited or up:
            self._void(now)
        return None

    def _miss(self, now: float) -> None:
        """Lose those who are silent."""
        for name, there in list(self.present.items()):
            if now - there.seen > self.rules.silence:
                there.post(_refusal("nothing was heard for too long", again=1.0))
                self._lose(name, "nothing was heard of it")
        oldest = min((there.seen for there in self.present.values()), default=math.inf)
        self.all_heard_until = oldest + self.rules.silence

    def _void(self, now: float) -> None:
        """Give up the round that is under way."""
        assert self.opened is not None
        self.journal.void(self.opened, now)
        self.log("void", round=self.opened.round, attempt=self.opened.attempt, updates=len(self.received))
        self.opened, self.received, self.expected = None, {}, set()
        self.not_before = now + self.rules.pause
        self._tidy()

    def _needed(self) -> int:
        """How many updates a round wants: m, or everybody who was asked, if that is fewer."""
        assert self.opened is not None
        return min(self.m, len(self.opened.cohort)) if self.opened.cohort else self.m

    @property
    def m(self) -> int:
        """How many updates a round is to have."""
        return self.arithmetic.algorithm.cohort(max(1, self.roll.counting(self.clock())))

    def _open(self, now: float) -> None:
        """Begin a round, if there is somebody to ask."""
        ready, m = self.roll.ready, self.m
        if now < self.not_before:
            return
        if why := self.lacking:
            self._wait(why, now)
            return
        if len(ready) < self.rules.asked(m) and any(now < moment for moment in self.roll.back_by()):
            return
        by_number = {member.number: name for name, member in self.members.items()}
        order = self.arithmetic.preference(self.round, self.roll.sizes())
        cohort = [by_number[number] for number in order if by_number[number] in ready][: self.rules.asked(m)]
        opened = Opened(self.round, self.journal.attempts(self.round), tuple(cohort), now)
        self.journal.open(opened)
        self.said, self.silent_until = "", -math.inf
        self.opened, self.received, self.expected = opened, {}, set(cohort)
        self.log("round", round=self.round, attempt=self.opened.attempt, asked=len(cohort))
        for name in cohort:
            self._ask(name)

    @property
    def lacking(self) -> str:
        """What the next round waits for, if it does."""
        return self.roll.lacking(self.round == 0, self.m, self.clock())

    def _wait(self, why: str, now: float) -> None:
        """Say what a round waits for: not at once, and something else not before as much time has passed again."""
        if why != self.said and now >= self.silent_until:
            if self.silent_until > -math.inf:
                self.log("waiting", why=why)
                self.said = why
            self.silent_until = now + self.rules.patience

    def _closing(self, opened: Opened, received: list[Received], now: float) -> Job:
        """The work of closing a round with these updates."""
        numbers = {update.name: self._number(update.name) for update in received}
        seconds = self.before + now - self.since
        before = self.recorder.last or {}
        sent = (self.disk.size(self.model_file) or 0) * len(opened.cohort)
        given = opened, received, numbers, len(self.members), seconds, sent, before
        return partial(close, self.course, self.disk, self.state, *given)

    @property
    def history(self) -> History:
        """The rows of all closed rounds."""
        return self.recorder.history

    def _over_because(self, decision: Decision) -> str | None:
        """Return why the run is over, or ``None`` if it goes on."""
        return decision.reason or exhausted(self.history.rows, self.journal.voids(LIMIT))

    def finish(self, done: Done) -> None:
        """Write that a round is closed, with a new model or void, and go on to the next."""
        assert self.opened is not None
        now, round = self.clock(), self.opened.round
        void = Void(now, round, done.void, tuple(self.received)) if done.void is not None else None
        self.journal.end(self.opened, done.closed, done.counted, now, void)
        if void is not None:
            self.log("void", round=round, attempt=self.opened.attempt, why=void.why, participants=sorted(void.names))
        for name in done.counted:
            known = self.members[name]
            self.members[name] = replace(known, counted=done.closed.round, rounds=known.rounds + 1)
        self.state, self.state_file, self.model_file = done.state, done.closed.state, done.closed.model
        self.recorder, decision = self.recorder.add(dict(done.closed.row), must_be_finite=False)  # void rounds stay
        self.round, self.opened, self.received, self.expected = self.round + 1, None, {}, set()
        self.closing, self.not_before = False, now
        self.stopped = self._over_because(decision)
        self.log("closed", **done.closed.row)
        self.uploads.clear()  # of a round that is over
        if self.stopped:
            self.log("over", why=self.stopped)
            for name, there in self.present.items():
                there.post(self._over(self.members[name]))
        self._tidy()

    def dismiss(self) -> None:
        """The server is going away in good order: whoever is there may come back later."""
        for there in self.present.values():
            there.post(_refusal("the server is going away: come back later", again=2.0))

    def forgive(self, seconds: float) -> None:
        """After a time in which nothing could be heard here: nobody was silent."""
        for there in self.present.values():
            there.seen += seconds

    @property
    def awaited(self) -> bool:
        """Whether somebody takes part who does not know yet that the run is over."""
        taking = (name for name in self.members if name not in self.roll.unfit and not self.roll.left_out(name))
        return any(name not in self.told for name in taking)

    def failed(self) -> None:
        """Closing did not succeed: it will be tried again."""
        self.closing, self.not_before = False, self.clock() + self.rules.pause

    def spoiled(self, why: str) -> None:
        """What the updates of a round give together is no model: the one before stands, and the round begins again."""
        self.log("trouble", why=f"the model after round {self.round + 1} cannot be used: {why}")
        self.closing = False
        self._void(self.clock())

    def rest(self) -> float:
        """Seconds until something may be due, if nothing else happens."""
        now = self.clock()
        moments = [self.all_heard_until, self.not_before]
        if self.opened is not None:
            moments += [self.opened.began + self.rules.deadline, self.back_by]
        else:
            moments += [*self.roll.back_by(), self.silent_until]
        return max(0.01, min((moment - now for moment in moments if now < moment < math.inf), default=3600.0) + 0.001)


def _refusal(why: str, again: float = 0.0) -> Order:
    return Order(refusal=Refusal(why=why, again=again))
