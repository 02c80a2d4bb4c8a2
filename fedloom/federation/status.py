"""Status: how a run stands, for people and pages."""

from __future__ import annotations

from typing import Any

from fedloom.federation.coordinator import Coordinator
from fedloom.federation.journal import Member


def status(c: Coordinator) -> dict[str, Any]:
    """How things stand, for people and pages."""
    now, last = c.clock(), c.history.rows[-1] if len(c.history) else {}
    state = "finished" if c.stopped else "training" if c.opened else "waiting"
    m = c.m
    return {
        "run": c.run, "label": c.course.label, "state": state, "why": c.stopped or ("" if c.opened else c.lacking),
        "round": c.round, "attempt": c.opened.attempt if c.opened else 0,
        "rounds": c.course.stop.rounds, "goal": m, "quorum": c.rules.enough(m),
        "started": c.began, "now": now,
        "participants": [seen(c, member) for member in c.members.values()],
        "history": [dict(row) for row in c.history.rows],
        "refused": [{"time": r.time, "round": r.round + 1, "name": r.name, "reason": r.why}
                    for r in c.journal.refusals()],
        "void": [{"time": v.time, "round": v.round + 1, "reason": v.why, "participants": list(v.names)}
                 for v in c.journal.voids()],
        "aborted": c.journal.voided(),
        "bytes_up": last.get("bytes_up", 0), "bytes_down": last.get("bytes_down", 0),
    }  # fmt: skip


def seen(c: Coordinator, member: Member) -> dict[str, Any]:
    """How a participant stands."""
    there, name = c.present.get(member.name), member.name
    if member.offences >= c.rules.offences:
        state = "quarantined"
    elif there is None:
        state = "gone"
    elif name in c.received:
        state = "replied"
    else:
        state = "working" if name in c.expected else "idle"
    return {
        "name": name, "number": member.number, "state": state, "examples": there.examples if there else 0,
        "counted": member.rounds, "late": c.late.get(name, 0), "refused": member.offences,
        "seen": there.seen if there else 0.0,
    }  # fmt: skip
