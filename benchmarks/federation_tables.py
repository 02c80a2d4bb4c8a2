"""What was measured of a server and its participants, as tables of docs/federation.md."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

Record = dict[str, Any]


def row(cells: list[str]) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def table(heads: list[str], rows: list[list[str]]) -> list[str]:
    """A Markdown table."""
    return [row(heads), row(["---"] * len(heads)), *(row(cells) for cells in rows)]


def recorded(result: Record) -> str:
    """When, on what, and by which command."""
    load = f", load average {result['load']:.0f}" if isinstance(result.get("load"), float) else ""
    return f"Recorded {result['date'][:10]} on {result['device']}{load}: `{result['command']}`."


def bits(result: Record) -> list[str]:
    """Three processes beside the simulation."""
    many = sum(result["differ"].values())
    same = "every number the same, bit for bit, as" if not many else f"**{many:,} numbers differ** from"
    said = (f"Three processes and a server train MNIST to {result['target']:.0%} in {result['rounds']} rounds and "
            f"{result['seconds']:.0f} s, starting included: {same} in the simulation, client after "
            "client.")  # fmt: skip
    return [said, "", recorded(result)]


def weather(result: Record) -> list[str]:
    """Schedules, and what happened in them."""
    hours = result["simulated_seconds"] / 3600
    said = (f"{result['schedules']:,} schedules, {hours:,.0f} simulated hours in {result['took']:.0f} seconds: "
            f"{result['crashes']:,} crashes of servers, {result['void']:,} void rounds, "
            f"{len(result['broken'])} broken promises.")  # fmt: skip
    return [said, "", recorded(result)]


def crashes(result: Record) -> list[str]:
    """Kills of servers and participants, and how long it took to go on."""
    rows, named = [], len(result["points"]["kills"])
    kinds = (
        ("points", "at every named moment", named),
        ("random", "at random moments", result["kills_of_the_server"] - named),
    )
    for name, called, times in kinds:
        one = result[name]
        redone = sum(one["local_work_redone"].values())
        rows.append([f"server, {called}", f"{times}", "yes" if one["same"] else "**no**",
                     str(one["begun_at_most"]), str(redone)])  # fmt: skip
    heads = ["killed", "times", "same model after every round", "a round begun at most", "local work redone"]
    warm, cold = result["seconds_from_restart"]["goes_on"], result["seconds_from_cold_restart"]["goes_on"]
    said = (f"A round goes on {warm['median']:.1f} s after a restart (the median; at most {warm['largest']:.1f}); "
            f"where Python starts anew as well, after {cold['median']:.1f} s "
            f"(at most {cold['largest']:.1f}).")  # fmt: skip
    return [*table(heads, rows), "", said, "", recorded(result)]


def dropouts(result: Record) -> list[str]:
    """Round times with and without participants that are killed."""
    calm, rough = result["undisturbed"], result["disturbed"]
    said = (f"{result['share']:.0%} of {result['participants']} participants killed in a round, "
            f"{result['over']:g} times as many asked as needed: a round takes {rough['seconds']:.2f} s instead of "
            f"{calm['seconds']:.2f} ({result['seconds_ratio']:.2f} ×; with the wait for the next "
            f"{result['seconds_until_the_next_ratio']:.2f} ×), {result['void']} void rounds.")  # fmt: skip
    return [said, "", recorded(result)]


def full_disk(result: Record) -> list[str]:
    """Disks that are full at every call."""
    manners = {name: one for name, one in result.items() if isinstance(one, dict) and "refused" in one}
    rows = [[name, f"{one['refused']:,}", str(one["ended_while_serving"]), str(len(one["broken"]))]
            for name, one in manners.items()]  # fmt: skip
    said = f"A disk that is full at each of {result['calls']} calls of the system in turn:"
    return [said, "", *table(["full for", "calls refused", "servers ended", "runs broken"], rows), "", recorded(result)]


def hostile(result: Record) -> list[str]:
    """What became of every attack, and of memory."""
    rows = [[name.replace("_", " "), outcome(one["outcome"]), f"{one['mb_peak'] - one['mb_before']:+.0f}"]
            for name, one in result["attacks"].items()]  # fmt: skip
    same = "the same, bit for bit, as" if result["identical_models"] else "**not** the same as"
    said = (f"Meanwhile {result['rounds']} rounds of honest participants were trained; the model is {same} without "
            f"attacks. The server had {result['mb_at_the_start']:.0f} MB before, {result['mb_peak']:.0f} at most "
            f"({result['mb_at_the_end_undisturbed']:.0f} at the end of the run without attacks).")  # fmt: skip
    return [*table(["attack", "outcome", "MB"], rows), "", said, "", recorded(result)]


def outcome(said: Any) -> str:
    """What became of an attack, in few words."""
    if isinstance(said, dict):
        return "; ".join(f"{name}: {str(one).partition(':')[0]}" for name, one in said.items())
    return str(said).partition(": failed to connect")[0].translate({ord(sign): None for sign in "{}'|"})


def fuzz(result: Record) -> list[str]:
    """How much was tried."""
    found = result["found"]
    tried = [found[part] for part in ("guided", "blind") if isinstance(found[part], dict)]  # else it says why not
    how = "guided by coverage or not" if len(tried) == 2 else "drawn at random"
    inputs = sum(n for part in tried for name, n in part.items() if name != "exit")
    calls = found["coordinator"]
    said = (f"{result['seconds'] / 60:.0f} minutes of fuzzing: {inputs:,} messages and files, {how}, "
            f"and {calls['runs']:,} runs of 300 calls in any order, with {calls['restart']:,} restarts: nothing "
            "but documented refusals.")  # fmt: skip
    return [said, "", recorded(result)]


def load(result: Record) -> list[str]:
    """A crowd, and a large model."""
    blocks: list[str] = []
    if crowd := result.get("crowd"):
        rows = [[f"{one['participants']:,}, {one['updates_a_round']:.0f} a round", str(one["rounds"]),
                 f"{one['seconds_a_round']:.1f}", times(one["milliseconds"]["alone"]),
                 times(one["milliseconds"]["submit"]), f"{one['server_peak_bytes'] / 1e6:.0f} MB"]
                for one in crowd]  # fmt: skip
        heads = [
            "participants",
            "rounds",
            "seconds a round",
            "a lone call, p50 / p99 ms",
            "submit, p50 / p99 ms",
            "memory",
        ]
        blocks += [*table(heads, rows), ""]
    if large := result.get("large"):
        plain, secured = (statistics.median(large[f"{kind}_gigabytes_a_second"]) for kind in ("tcp", "tls"))
        rows = [["a plain socket", f"{plain:.2f}", ""], ["a TLS socket of Python", f"{secured:.2f}", ""]]
        rows += [[f"{name} of a model", f"{large[name]['median']:.2f}",
                  f"{large[name]['of_tcp']:.2f} of the plain, {large[name]['of_tls']:.2f} of the TLS socket"]
                 for name in ("fetch", "push")]  # fmt: skip
        heads = [f"{large['bytes'] / 1e6:.0f} MB over loopback", "GB/s", ""]
        peak = f"The server had {large['server_peak_bytes'] / 1e9:.1f} GB at most."
        blocks += [*table(heads, rows), "", peak, ""]
    return [*blocks, recorded(result)]


def times(found: Record) -> str:
    """The usual time and nearly the longest, in milliseconds."""
    return f"{found['p50']:.0f} / {found['p99']:.0f}"


DRAWN: dict[str, tuple[Callable[[Record], list[str]], ...]] = {
    "bits": (bits,),
    "weather": (weather,),
    "crashes": (crashes, dropouts, full_disk),
    "hostile": (hostile, fuzz),
    "load": (load,),
}
"""Where on the page → what is drawn there, each from the results of its name."""


def drawn(name: str, read: Callable[[str], list[Record]]) -> str:
    """What stands between the marks of a name."""
    blocks = []
    for draw in DRAWN[name]:
        for result in read(f"{draw.__name__}-*.json"):
            blocks += [*draw(result), ""]
    return "\n".join([f"<!-- {name} -->", *blocks, f"<!-- /{name} -->"])
