"""Draw the tables of the documentation from what is recorded in results/."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

import data_tables
import engine_tables
import federation_tables
import users_tables

ROOT = Path(__file__).resolve().parent.parent
RESULTS, README, PAGE = ROOT / "results", ROOT / "README.md", ROOT / "docs" / "benchmarks.md"
WEIGHTING, TOPOLOGIES, MPI, MODELS, FEDERATION = (
    ROOT / "docs" / f"{name}.md" for name in ("weighting", "topologies", "mpi", "models", "federation")
)
NAMES = {
    "fedloom": "fedloom",
    "fedloom-ray": "fedloom on Ray",
    "loop": "plain PyTorch loop, one thread",
    "loop-parallel": "plain PyTorch loop, a process a core",
    "flower": "Flower's simulation",
    "pfl": "pfl, one process",
    "pfl-parallel": "pfl, a process a core",
    "fedjax": "FedJAX, its best setting",
}
WORKLOADS = {
    "2nn": "2NN",
    "cnn": "CNN",
    "2nn-1000": "2NN, 100 of 1,000 clients",
    "unbalanced": "2NN, unbalanced",
    "sweep16": "16 × 2NN",
    "sweep64": "64 × 2NN",
}


def read(pattern: str) -> list[dict[str, Any]]:
    """The recorded results of a kind."""
    return [json.loads(path.read_text()) for path in sorted(RESULTS.glob(pattern))]


def row(cells: list[str]) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def recorded(result: dict[str, Any]) -> str:
    """When, and by which command."""
    return f"Recorded {result['date'][:10]}: `{result['command']}`."


def times(ratio: float) -> str:
    """How many times as long, in two digits."""
    return f"{ratio:.1f} ×" if ratio < 9.95 else f"{float(f'{ratio:.2g}'):,.0f} ×"


def measured(result: dict[str, Any]) -> tuple[str, str]:
    """On what which workloads were timed, and how often."""
    told = "; ".join(name for w, name in WORKLOADS.items() if w in result["seconds_a_round"])
    often = result["repeat"]
    return f"{result['device']['name']}: {told}", f"{often} repetitions" if often > 1 else "a single repetition"


def comparison(result: dict[str, Any]) -> list[str]:
    """Seconds a round of every system on every workload, and the ratio to fedloom."""
    timings, ratios = result["seconds_a_round"], result["times_as_long_as_fedloom"]
    workloads = [w for w in WORKLOADS if w in timings]
    systems = [s for s in NAMES if any(s in timings[w] for w in workloads)]
    lines = [row(["seconds a round", *(WORKLOADS[w] for w in workloads)]), row(["---"] * (1 + len(workloads)))]
    for system in systems:
        cells = []
        for workload in workloads:
            time = timings[workload].get(system)
            ratio = ratios.get(workload, {}).get(system, 1)
            cells.append("–" if time is None else f"{time:.3g}" + (f" ({times(ratio)})" if ratio != 1 else ""))
        lines.append(row([called(system, result), *cells]))
    return lines


def called(system: str, result: dict[str, Any]) -> str:
    """What a system is called in a result."""
    on_gpu = result["device"]["kind"] == "gpu"
    return NAMES[system].replace("one thread", "on the same GPU") if on_gpu else NAMES[system]


def page() -> str:
    """The benchmarks page."""
    parts = ["# Benchmarks", "", INTRODUCTION]
    for result in read("benchmark-*.json"):
        useful = {t["workload"]: t["useful_over_computed"] for t in result["timings"] if "useful_over_computed" in t}
        about, often = measured(result)
        parts += [f"## {about}", "", f"Seconds a round, {often}:", "", *comparison(result), ""]
        parts += ["Useful steps over steps computed by fedloom: "
                  + ", ".join(f"{WORKLOADS[w]} {u:.3f}" for w, u in useful.items()) + ".", ""]  # fmt: skip
        listed = "; ".join(
            f"{called(system, result)}: " + ", ".join(f"{name} {version}" for name, version in packages.items())
            for system, packages in result["versions"].items()
        )
        parts += [
            f"Recorded {result['date'][:10]}, seed {result['seed']}: `{result['command']}`. Versions: {listed}.",
            "",
        ]
    for result in read("fedloom-*.json"):
        parts += alone(result)
    parts += users_tables.sections(read("users-models-*.json"))
    for result in read("kernels-*.json"):
        parts += users_tables.kernels(result)
    if results := read("precision-*.json"):
        parts += users_tables.precision(results)
    for result in read("compiling-*.json"):
        parts += users_tables.compiling(result)
    for result in read("million-*.json"):
        parts += million(result)
    for result in read("idle.json"):
        parts += idle(result)
    for result in read("kill.json"):
        parts += kills(result)
    return "\n".join(parts).rstrip() + "\n"


def alone(result: dict[str, Any]) -> list[str]:
    """What fedloom alone takes, timed over more rounds than its peers have patience for."""
    timings, experiments = result["seconds_a_round"], result["workloads"]
    cells = [
        f"{WORKLOADS[w]} {by['fedloom'] / experiments[w]['experiments']:.3g} s a round and experiment"
        for w, by in timings.items()
    ]
    rounds = max(line["rounds"] for line in result["timings"])
    return [
        f"## fedloom alone on {result['device']['name']}",
        "",
        f"Over {rounds:,} rounds: {', '.join(cells)}. {recorded(result)}",
        "",
    ]


def million(result: dict[str, Any]) -> list[str]:
    """What a million clients cost."""
    gigabytes = {name: result[f"{name}_bytes"] / 1e9 for name in ("peak_memory", "data", "ranges")}
    return [
        f"## A million clients on {result['device']}",
        "",
        f"{result['clients']:,} clients of ten generated examples, {result['cohort']:,} a round, logistic regression: "
        f"**{result['rounds_a_second']:.1f} rounds a second**, peak memory {gigabytes['peak_memory']:.2f} GB, of which "
        f"the examples are {gigabytes['data']:.2f} GB and the clients' index and ranges {gigabytes['ranges']:.3f} GB. "
        f"Test accuracy went from {result['test_accuracy_before']:.1%} to {result['test_accuracy_after']:.1%}. "
        + recorded(result),
        "",
    ]


def idle(result: dict[str, Any]) -> list[str]:
    """How much of what an accelerator computes is useful."""
    sizes = result["sizes"]
    lines = [
        "## Little is idle",
        "",
        f"Shakespeare's {result['clients']:,} roles have {sizes['mean']:.0f} lines of text on average, half of them at "
        f"most {sizes['median']:.0f}, one {sizes['largest']:,}. Laid out as on an accelerator, a tenth of them in each "
        f"of {result['rounds']} rounds:",
        "",
        row(["", "lanes", "rows of a step", "useful steps over computed", "examples over rows computed"]),
        row(["---"] * 5),
    ]
    for one in result["rows"]:
        b = one["batch_size"] or "∞"
        name = "FedSGD" if (one["epochs"], b) == (1, "∞") else f"E = {one['epochs']}, B = {b}"
        shares = [f"{one['steps']:.3f}", f"{one['examples']:.3f}"]
        lines.append(row([name, str(one["lanes"]), str(one["rows"]), *shares]))
    return [*lines, "", f"A step of FedSGD is a row there: all clients' lines are one batch. {recorded(result)}", ""]


def kills(result: dict[str, Any]) -> list[str]:
    """What killing a run did to its numbers."""
    rounds = ", ".join(str(kill["checkpoint_round"]) for kill in result["kills"])
    same = "the same, bit for bit, as" if result["identical_parameters"] else "NOT the same as"
    moments = f"at {len(result['kills'])} random moments (its newest checkpoints were of rounds {rounds})"
    numbers = f"{result['numbers_compared']:,} numbers in the end, the parameters and the server's momentum,"
    return [
        "## Killed and resumed",
        "",
        f"A run of 150 rounds was killed with `kill -9` {moments} and resumed each time. Its {numbers} are {same} "
        f"those of the run left alone. {recorded(result)}",
        "",
    ]


INTRODUCTION = """Every system in its own process and environment on the same generated data: federated averaging,
E = 1, B = 10, learning rate 0.1. *2NN*, *CNN*: 100 clients × 600 images, 10 a round. *100 of 1,000*: 1,000 clients ×
60 images. *Unbalanced*: 1,000 clients, sizes log-normal, the largest 50 × the median, 100 a round. *16 × 2NN*,
*64 × 2NN*: so many experiments that differ in their seeds; fedloom computes all of them, of a peer one is timed and its
time multiplied. Repetitions are interleaved (A B C A B C …) and the
median is taken; in brackets, how many times as long as fedloom. This page is drawn from `results/` by
`python benchmarks/tables.py`; [benchmarks/](../benchmarks) says how to repeat everything.
"""


SHOWN = ("fedloom", "loop-parallel", "flower", "pfl-parallel", "fedjax")
"""Systems in the README's table: the fastest setting of each, on a CPU."""


def speed() -> str:
    """Return the README's table: the two first workloads on a CPU."""
    [result] = [r for r in read("benchmark-*.json") if {"2nn", "cnn"} == set(r["seconds_a_round"])]
    shown = dict.fromkeys(SHOWN)
    timings = {w: {s: t for s, t in by.items() if s in shown} for w, by in result["seconds_a_round"].items()}
    about = (
        f"Seconds for one round of federated averaging on {result['device']['name']}: 10 of 100 clients, 600 images "
        f"each, E = 1, B = 10, learning rate 0.1 (median of {result['repeat']} interleaved repetitions; in brackets, "
        f"times fedloom's). {recorded(result)}"
    )
    return "\n".join(
        ["<!-- speed -->", about, "", *comparison({**result, "seconds_a_round": timings}), "<!-- /speed -->"]
    )


def personal() -> str:
    """What personalisation costs, for docs/weighting.md."""
    blocks = []
    for result in read("personal-*.json"):
        every = result["seconds_a_round"]
        base = {users: statistics.median(by["federated averaging"]) for users, by in every.items()}
        blocks += [row([f"seconds a round on {result['device']}", *(f"{int(users):,} users" for users in every)])]
        blocks += [row(["---"] * (1 + len(every)))]
        for method in next(iter(every.values())):
            medians = {users: statistics.median(by[method]) for users, by in every.items()}
            blocks.append(row([method, *(f"{m:.3g} ({m / base[users]:.1f} ×)" for users, m in medians.items())]))
        blocks += ["", recorded(result), ""]
    return "\n".join(["<!-- cost -->", *blocks, "<!-- /cost -->"])


def liars() -> str:
    """What combiners are worth where clients lie, for docs/weighting.md."""
    blocks = []
    for result in read("liars-*.json"):
        runs, last = result["runs"], result["seeds"] - 1
        places = list(next(iter(runs.values())))
        blocks += [row(["combiner", *places]), row(["---"] * (1 + len(places)))]
        blocks += [row([f"`{name}`", *(accuracies(by[place]) for place in places)]) for name, by in runs.items()]
        about = f"After {result['rounds']} rounds: the mean over seeds 0 to {last}, and the least and the most of them."
        blocks += ["", f"{about} Recorded {result['date'][:10]} on {result['device']}: `{result['command']}`.", ""]
    return "\n".join(["<!-- liars -->", *blocks, "<!-- /liars -->"])


def accuracies(runs: list[dict[str, Any]]) -> str:
    """The accuracies of some runs; or how many of them ceased to be numbers."""
    diverged = sum(run["stopped"].startswith("diverged") for run in runs)
    if diverged:
        return f"{diverged} of {len(runs)} diverged"
    values = [run["accuracy"] for run in runs]
    return f"{statistics.mean(values):.1%} ({min(values):.1%} to {max(values):.1%})"


def workers() -> str:
    """Many workers without a server in one process, for docs/topologies.md."""
    blocks = []
    for result in read("workers-*.json"):
        blocks += [row([f"{result['topology']}, {result['device']}", "seconds a round", "all models", "peak memory"])]
        blocks += [row(["---"] * 4)]
        for one in result["rows"]:
            peak = one["peak_device_bytes"] or one["peak_memory_bytes"]
            cells = [f"{statistics.median(one['seconds_a_round']):.3g}", f"{one['models_bytes'] / 1e9:.2f} GB"]
            blocks.append(row([f"{one['workers']:,} workers", *cells, f"{peak / 1e9:.1f} GB"]))
        blocks += ["", recorded(result), ""]
    return "\n".join(["<!-- workers -->", *blocks, "<!-- /workers -->"])


def mpi() -> str:
    """What exchanging over MPI costs, for docs/mpi.md."""
    [result] = read("mpi.json")
    sizes = result["throughput"]
    blocks = [row(["", *(f"{name}, {one['bytes'] / 1e6:.1f} MB" for name, one in sizes.items())])]
    blocks += [row(["---"] * (1 + len(sizes)))]
    plain, ours = ([f"{one[f'{who}_gb_a_second']:.1f}" for one in sizes.values()] for who in ("plain", "mailbox"))
    blocks += [row(["GB a second, a plain `Sendrecv`", *plain]), row(["GB a second, the mailbox", *ours])]
    blocks += [row(["ratio", *(f"{one['ratio']:.2f}" for one in sizes.values())]), ""]
    hidden = result["hidden"]
    blocks += [row(["", "ms a model on its way", "of which not waited for", "of a round waiting", "ms a round"])]
    blocks += [row(["---"] * 5)]
    for name, one in hidden.items():
        shares = [f"{one[key]:.0%}" for key in ("share_not_waited_for", "share_of_rounds_waiting")]
        blocks.append(row([name, f"{one['milliseconds_a_model']:.1f}", *shares, f"{one['milliseconds_a_round']:.1f}"]))
    blocks += ["", f"Two ranks on {result['device']}, recorded {result['date'][:10]}: `{result['command']}`."]
    return "\n".join(["<!-- mpi -->", *blocks, "<!-- /mpi -->"])


def models() -> str:
    """What a model of one's own costs, for docs/models.md."""
    blocks = []
    for result in read("models-*.json"):
        every = {name: statistics.median(times) for name, times in result["seconds_a_round"].items()}
        libraries = [name for name in every if f"{name}, its own loop" in every]
        cell = lambda name: f"{every[name]:.3g} ({every[name] / every['built in']:.2f} ×)" if name in every else "–"  # noqa: B023, E731
        blocks += [row([f"seconds a round, {result['device']}", "compiled", "nothing rewritten", "its own loop"])]
        blocks += [row(["---"] * 4), row(["built in", f"{every['built in']:.3g}", "", ""])]
        for name in libraries:
            blocks.append(row([name, *(cell(f"{name}{how}") for how in ("", ", nothing rewritten", ", its own loop"))]))
        blocks += ["", recorded(result), ""]
    return "\n".join(["<!-- models -->", *blocks, "<!-- /models -->"])


def mesh() -> str:
    """One process on several devices, for docs/models.md."""
    blocks = [
        "The same experiment on more and more devices: the 2NN, many clients, all in every round, one epoch; how far "
        "a parameter is from that of one device after a round:",
        "",
    ]
    for result in read("mesh-*.json"):
        times = [statistics.median(one["seconds_a_round"]) for one in result["rows"]]
        what = f"{result['device']}; {result['clients']} clients, B = {result['batch']}"
        blocks += [row([what, "seconds a round", "times as fast", "largest difference of a parameter"])]
        blocks += [row(["---"] * 4)]
        for one, seconds in zip(result["rows"], times, strict=True):
            devices = f"{one['devices']} device{'s' if one['devices'] > 1 else ''}"
            cells = [
                f"{seconds:.3g}",
                f"{times[0] / seconds:.2f}",
                f"{one['largest_difference']:.1e}" if one["largest_difference"] else "0",
            ]
            blocks.append(row([devices, *cells]))
        blocks += ["", recorded(result), ""]
    return "\n".join(["<!-- mesh -->", *blocks, "<!-- /mesh -->"])


def ray() -> str:
    """Ray beside Flower, which is made on Ray, for docs/models.md."""
    blocks = []
    for result in read("ray-*.json"):
        ours, theirs = (result["versions"][system] for system in ("fedloom-ray", "flower"))
        told = f"Ray {ours['ray']}; Flower {theirs['flwr']} on Ray {theirs['ray']}"
        blocks += [f"{result['device']['name']}; {told}:", "", *comparison(result), "", recorded(result), ""]
    return "\n".join(["<!-- ray -->", *blocks, "<!-- /ray -->"])


def leak() -> str:
    """The memory of a long run on Ray, for docs/models.md."""
    blocks = []
    for result in read("leak-*.json"):
        rows = result["rows"]
        chosen = [rows[0], *(rows[len(rows) * quarter // 4 - 1] for quarter in (1, 2, 3, 4))]
        blocks += [row([result["device"], "seconds", "the process that drives", "each actor"]), row(["---"] * 4)]
        for one in chosen:
            actors = ", ".join(f"{size / 2**20:.0f}" for size in one["actors_bytes"])
            sizes = [f"{one['driver_bytes'] / 2**20:.0f} MiB", f"{actors} MiB"]
            blocks.append(row([f"{one['round']:,} rounds", f"{one['seconds']:.1f}", *sizes]))
        blocks += ["", recorded(result), ""]
    return "\n".join(["<!-- leak -->", *blocks, "<!-- /leak -->"])


def put(page: Path, name: str, table: str) -> None:
    """Put a table in its place on a page."""
    text = re.sub(rf"<!-- {name} -->.*<!-- /{name} -->", lambda _: table, page.read_text(), flags=re.DOTALL)
    page.write_text(text)


def main() -> None:
    """Write the page of benchmarks, and the tables of other pages."""
    PAGE.write_text(page())
    put(WEIGHTING, "cost", personal())
    put(WEIGHTING, "liars", liars())
    put(TOPOLOGIES, "workers", workers())
    put(MPI, "mpi", mpi())
    for name, drawn in {"models": models, "mesh": mesh, "ray": ray, "leak": leak}.items():
        put(MODELS, name, drawn())
    for name in federation_tables.DRAWN:
        put(FEDERATION, name, federation_tables.drawn(name, read))
    put(README, "speed", speed())
    data_tables.draw()
    engine_tables.draw()
    print(f"wrote {PAGE.relative_to(ROOT)}, the tables of other pages in docs/ and the table of {README.name}")


if __name__ == "__main__":
    main()
