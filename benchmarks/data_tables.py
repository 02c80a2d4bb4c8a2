"""Draw the tables and the figure of docs/data.md from what is recorded in results/."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from fedloom.style import STYLE

ROOT = Path(__file__).resolve().parent.parent
PAGE, CURVES = ROOT / "docs" / "data.md", ROOT / "docs" / "figures" / "sources.png"
SOURCES = {
    "mnist_writers": "MNIST by writer",
    "wisdm": "WISDM, a CSV",
    "hapt": "HAPT, windows of a CSV",
    "cats_dogs": "cats and dogs by affinity",
    "shakespeare": "Shakespeare by role",
    "cifar10": "CIFAR-10, Dirichlet 0.5",
}


def highest(run: Mapping[str, Any]) -> float:
    """Return the highest test accuracy of any round; earlier recordings call it the best."""
    return float(run.get("max_over_rounds_test_accuracy", run.get("best_test_accuracy")))


def records() -> dict[str, dict[str, Any]]:
    """What is recorded of every source."""
    files = {name: ROOT / "results" / f"sources-{name}.json" for name in SOURCES}
    return {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}


def sources(found: dict[str, dict[str, Any]]) -> list[str]:
    """Test accuracies, federated and in one place, and pictures of the clients."""
    lines = [
        "Test accuracy in the last round (and the highest of any round) of a federated model, and of the same model "
        "with the same learning rate trained on the union of all clients' data for as many passes over it; one seed:",
        "",
        "| data | clients | a client's size | federated | on the union | rounds, epochs | device, seconds in all |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, record in found.items():
        about, federated, central = (record[key] for key in ("data", "federated", "central"))
        accuracies = [f"{run['test_accuracy']:.1%} ({highest(run):.1%})" for run in (federated, central)]
        lines.append(
            f"| [{SOURCES[name]}](../examples/{name}.toml) | {about['clients']:,} | {about['size_min']:,} to "
            f"{about['size_max']:,} | {' | '.join(accuracies)} | {federated['round']:,}, {central['round']:,} | "
            f"{record['device']}, {record['seconds']:.0f} |"
        )
    lines += ["", "![Test accuracy, federated and on the union, against passes over the data](figures/sources.png)", ""]
    lines += ["`python benchmarks/sources.py` runs them; each is one command, such as "
              "`fedloom run examples/wisdm.toml --central`. Their clients:", ""]  # fmt: skip
    lines += [f"![Clients of {SOURCES[name]}](figures/clients-{name}.png)" for name in found]
    return lines


def curves(found: dict[str, dict[str, Any]]) -> None:
    """Every source's test accuracies against passes over the data."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(12, 6.4), layout="constrained")
        grid = list(figure.subplots(2, 3).flat)
        for axes in grid[len(found) :]:
            axes.set_axis_off()
        for axes, (name, record) in zip(grid, found.items(), strict=False):
            passes = record["central"]["round"] / record["federated"]["round"]
            for how, scale, label in (("federated", passes, "federated"), ("central", 1.0, "on the union")):
                rows = record["curves"][how]
                axes.plot([row["round"] * scale for row in rows], [row["test_accuracy"] for row in rows], label=label)
            axes.set(title=SOURCES[name], xlabel="passes over everybody's data", ylabel="test accuracy")
            axes.legend(loc="lower right")
        figure.savefig(CURVES, dpi=110)


def partitions() -> list[str]:
    """Seconds and memory of every scheme."""
    lines = []
    for file in sorted((ROOT / "results").glob("partitions-*.json")):
        record = json.loads(file.read_text())
        sizes = sorted({(row["examples"], row["clients"]) for row in record["rows"]})
        heads = [f"{n:,} over {clients:,} clients" for n, clients in sizes]
        lines += [f"{record['device']}, seconds to deal (and to describe), and peak memory with the labels:", "",
                  f"| partition, split | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]  # fmt: skip
        for scheme, split in dict.fromkeys((row["scheme"], row["split"]) for row in record["rows"]):
            mine = [row for row in record["rows"] if (row["scheme"], row["split"]) == (scheme, split)]
            cells = [f"{row['partition_seconds']:.3g} ({row['describe_seconds']:.2g}), {row['peak_gb']:.1f} GB"
                     for row in mine]  # fmt: skip
            lines.append(f"| {scheme}{'' if split == 'none' else f', {split}'} | {' | '.join(cells)} |")
        lines.append("")
        for row in record["beside_flower"]:
            times = row["flower_seconds"] / row["fedloom_seconds"]
            took = f"{row['flower_seconds']:.3f} s against {row['fedloom_seconds']:.4f} s, {times:.0f} × as long"
            what = f"{row['scheme']} of {row['examples']:,} examples over {row['clients']} clients"
            lines.append(f"Flower Datasets' {what}, timed in turn with ours: {took}.")
        lines += ["", f"Recorded {record['date'][:10]}: `{record['command']}`."]
    return lines


def draw() -> None:
    """Put everything between its marks in the page."""
    found = records()
    curves(found)
    text = PAGE.read_text()
    for mark, lines in (("sources", sources(found)), ("partitions", partitions())):
        block = "\n".join([f"<!-- {mark} -->", *lines, f"<!-- /{mark} -->"])
        text = re.sub(rf"<!-- {mark} -->.*<!-- /{mark} -->", lambda _, block=block: block, text, flags=re.DOTALL)
    PAGE.write_text(text)
