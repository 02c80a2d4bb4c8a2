"""Draw the tables of `users_models.py`, for `tables.py`."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

COLUMNS = {
    "PyTorch": {
        "loop": "eager, one process",
        "parallel": "eager, {processes} processes",
        "compiled": "`torch.compile`, {processes}",
        "stacked": "stacked clients, one CUDA graph",
    },
    "Keras": {
        "loop": "`train_on_batch`, one process",
        "parallel": "`train_on_batch`, {processes} processes",
        "compiled": "`fit`, all threads",
    },
    "Flax": {
        "loop": "a loop around `jax.jit`, one process",
        "parallel": "the same, {processes} processes",
        "compiled": "the same, all threads",
    },
}
"""Library → what its contenders are called."""
ABOUT = """*fedloom* is `fl.run` through the adapter of the library. The others are loops over the same clients. All
take the same batches in the same order, with the same SGD (momentum 0.9) from the same weights; before they are timed,
the losses after the first rounds are compared. Clients are divided among several processes, each of one thread, which
have started before. `torch.compile` does without its optimisation of layouts where that makes gradients wrong. Seconds
a round are medians of interleaved repetitions, with the least and the most in brackets; then how many times as long as
fedloom. Compiling is not in them: *ready* is how many seconds fedloom's first rounds took beyond later ones, then the
same of what the library compiles."""


def sections(results: Sequence[dict[str, Any]]) -> list[str]:
    """Return the sections of all devices; the first one says what is measured."""
    ordered = sorted(results, key=lambda result: "instructions" in result)
    each = [section(result) for result in ordered]
    return [*each[0][:2], ABOUT, "", *each[0][2:], *(line for lines in each[1:] for line in lines)] if each else []


def section(result: dict[str, Any]) -> list[str]:
    """Return the section of one device."""
    only = result.get("instructions")
    where = result["device"] + (f", with {only} only" if only else "")
    lines = [f"## Models that users bring, on {where}", ""]
    for library in COLUMNS:
        every = [row for row in result["rows"] if row["library"] == library]
        if rows := [row for row in every if "fedloom" in row["seconds_a_round"]]:
            lines += [*table(library, rows), "", summary(library, rows), ""]
        lines += omitted(library, every)
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    commands = sorted({(row["date"][:10], row["command"]) for row in result["rows"]})
    told = "; ".join(f"{date}: `{command}`" for date, command in commands)
    return [*lines, f"Recorded {told}. Seed {result['seed']}. Versions: {versions}.", ""]


def table(library: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the table of a library."""
    names = [name for name in COLUMNS[library] if any(name in row["seconds_a_round"] for row in rows)]
    heads = [COLUMNS[library][name].format(processes=several(name, rows)) for name in names]
    lines = [
        drawn([f"{library}, seconds a round", "steps", "fedloom", *heads, "ready"]),
        drawn(["---"] * (4 + len(names))),
    ]
    for row in sorted(rows, key=lambda row: first_of(row, rows)):
        times, mine = row["seconds_a_round"], statistics.median(row["seconds_a_round"]["fedloom"])
        cells = [f"{row['network']}, B = {row['batch']}", f"{row['steps_a_round']:,}", spread(times["fedloom"])]
        for name in names:
            each = times.get(name)
            cells.append(f"{spread(each)} ({statistics.median(each) / mine:.2f} ×)" if each else "–")
        ready = [row["compile_seconds"].get(name) for name in ("fedloom", "compiled")]
        lines.append(drawn([*cells, " / ".join("–" if one is None else f"{one:.1f}" for one in ready)]))
    return lines


def first_of(row: dict[str, Any], rows: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """Return where a row stands: networks in the order in which they were first recorded, then by batch size."""
    order = list(dict.fromkeys(one["network"] for one in rows))
    return order.index(row["network"]), row["batch"]


def several(name: str, rows: Sequence[dict[str, Any]]) -> str:
    """Return the number of a contender's processes, for its column's head."""
    counts = sorted({row["processes"][name] for row in rows if name in row["processes"]})
    text = " or ".join(map(str, counts))
    return text if name != "compiled" else f"{text} {'process' if counts == [1] else 'processes'}"


def spread(times: Sequence[float]) -> str:
    """Return the median of some times, and their range where there are several.

    >>> spread([0.2, 0.1, 0.3]), spread([1.5])
    ('0.2 [0.1–0.3]', '1.5')
    """
    median = f"{statistics.median(times):.3g}"
    return median if len(times) == 1 else f"{median} [{min(times):.3g}–{max(times):.3g}]"


def summary(library: str, rows: Sequence[dict[str, Any]]) -> str:
    """Return the lowest and the median ratio to each contender, over all rows."""
    told = []
    for name, head in COLUMNS[library].items():
        ratios = {f"{row['network']}, B = {row['batch']}": statistics.median(row["seconds_a_round"][name])
                  / statistics.median(row["seconds_a_round"]["fedloom"])
                  for row in rows if name in row["seconds_a_round"]}  # fmt: skip
        if ratios:
            least = min(ratios, key=lambda row: ratios[row])
            middle = statistics.median(ratios.values())
            called = head.format(processes=several(name, rows))
            told.append(f"{called}: median {middle:.2f} ×, lowest {ratios[least]:.2f} × ({least})")
    return f"Against {'; '.join(told)}."


def omitted(library: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return why contenders are missing from rows, if some are."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for name, why in row["left_out"].items():
            head = COLUMNS[library].get(name, name).format(processes=several(name, rows))
            reasons.setdefault((head, row["network"]), []).append(f"B = {row['batch']}: {why}")
    told = [f"{head}, {network} ({'; '.join(each)})" for (head, network), each in reasons.items()]
    return [f"Left out: {'; '.join(told)}.", ""] if told else []


def drawn(cells: Sequence[str]) -> str:
    """Return a line of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


MODELS = {"resnet18-50": "ResNet-18, B = 50", "resnet18-250": "ResNet-18, B = 250", "gpt-16": "GPT, 10.7 M, B = 16"}
"""Part of `precision.py` → the model that it times."""


def precision(results: Sequence[dict[str, Any]]) -> list[str]:
    """Return the section of training steps in float32 and bfloat16."""
    measured = [one for result in results for one in result["measured"] if one["part"] in MODELS]
    lines = [
        f"## Precision of users' models, on {results[0]['device']}", "",
        "TFLOP/s of a training step of users' PyTorch models; *one lane* is one client after another.", "",
        drawn(["TFLOP/s", "float32", "bfloat16, one lane", "bfloat16"]), drawn(["---"] * 4),
    ]  # fmt: skip
    for part, name in MODELS.items():
        cells = [[f"{one['tflops']:.0f}" for one in measured
                  if (one["part"], one["precision"], one["lanes"]) == (part, kind, lanes)]
                 for kind, lanes in (("float32", None), ("bfloat16", 1), ("bfloat16", None))]  # fmt: skip
        lines.append(drawn([name, *(cell[0] if cell else "–" for cell in cells)]))
    commands = "; ".join(f"{result['date'][:10]}: `{result['command']}`" for result in results)
    return [*lines, "", *accuracy(results), f"Recorded {commands}.", ""]


def accuracy(results: Sequence[dict[str, Any]]) -> list[str]:
    """Return the table of the accuracy in both precisions."""
    rows = [one for result in results for one in result["measured"] if "accuracy" in one]
    if not rows:
        return []
    rounds, seeds = rows[0]["rounds"], len(rows[0]["accuracy"])
    lines = [
        f"The accuracy on MNIST after {rounds} rounds of federated averaging, with {seeds} seeds:", "",
        drawn(["accuracy, %", "float32", "bfloat16"]), drawn(["---"] * 3),
    ]  # fmt: skip
    for part in dict.fromkeys(row["part"] for row in rows):
        found = {row["precision"]: row["accuracy"] for row in rows if row["part"] == part}
        cells = [", ".join(f"{100 * one:.2f}" for one in found[kind]) for kind in ("float32", "bfloat16")]
        lines.append(drawn([part.removeprefix("accuracy-"), *cells]))
    return [*lines, ""]


WAYS = ("fedloom", "PyTorch", "XLA in order", "XLA")


def kernels(result: dict[str, Any]) -> list[str]:
    """Return the section of single convolutions on one core."""
    peak = statistics.median(row["peak_flops_a_second"] for row in result["rows"])
    lines = [
        f"## Single convolutions, on one core of {result['device']}", "",
        f"Share of the core's peak ({peak / 1e9:.0f} GFLOP/s, by a loop of fused multiply-adds in registers): the "
        "result, the gradient for the inputs, the gradient for the weights. *XLA* is `lax.conv_general_dilated` in "
        "a compiled loop; *in order* means that its axes have the order for which XLA has a fast kernel.", "",
        drawn(["%", *WAYS]), drawn(["---"] * (1 + len(WAYS))),
    ]  # fmt: skip
    for name in dict.fromkeys(row["convolution"] for row in result["rows"]):
        each = [row["share_of_peak"] for row in result["rows"] if row["convolution"] == name]
        lines.append(drawn([name, *(" / ".join(f"{100 * share[way]:.0f}" for share in each) for way in WAYS)]))
    return [*lines, "", f"Recorded {result['date'][:10]}: `{result['command']}`.", ""]


def compiling(result: dict[str, Any]) -> list[str]:
    """Return the section of the seconds before a run's first round."""
    lines = [
        f"## Compiling users' models, on {result['device']}", "",
        "Seconds from `fl.run` to the first round of PyTorch encoders: of the first run, of the second run, and of "
        "the first run of the next process, which shares the cache folder.", "",
        drawn(["seconds", "first run", "second run", "next process"]), drawn(["---"] * 4),
    ]  # fmt: skip
    for row in result["rows"]:
        times = (row["first"], row["second"], row["next_process"])
        lines.append(drawn([f"{row['layers']} layers, {row['precision']}", *(f"{seconds:.2g}" for seconds in times)]))
    return [*lines, "", f"Recorded {result['date'][:10]}: `{result['command']}`.", ""]
