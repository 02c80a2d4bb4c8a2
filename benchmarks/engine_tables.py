"""Draw the table of methods and engines in docs/engines.md from results/engines.json."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE, RESULT = ROOT / "docs" / "engines.md", ROOT / "results" / "engines.json"


def row(cells: list[str]) -> str:
    """Return a line of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def cell(outcome: dict[str, Any], refusals: list[str]) -> str:
    """Return the largest difference of a run to the reference, or the number of the sentence that refuses it."""
    if "refusal" in outcome:
        return f"refused ({refusals.index(requirement(outcome['refusal'])) + 1})"
    largest = max(outcome["models"], outcome["history"])
    return f"{largest:.0e}" if largest else "0"


def requirement(refusal: str) -> str:
    """Return a sentence without the value that was refused, which differs from method to method.

    >>> requirement("algorithm must be fedavg or local, but is 'scaffold'")
    'algorithm must be fedavg or local'
    """
    return re.sub(r", but is [^,]*$", "", refusal)


def table(result: dict[str, Any]) -> str:
    """Return the table with the sentences of the refusals."""
    cells = result["cells"]
    every = [outcome for outcomes in cells.values() for outcome in outcomes.values()]
    refusals = list(dict.fromkeys(requirement(one["refusal"]) for one in every if "refusal" in one))
    lines = [row(["method", *cells]), row(["---"] * (1 + len(cells)))]
    for method in next(iter(cells.values())):
        lines.append(row([f"`{method}`", *(cell(outcomes[method], refusals) for outcomes in cells.values())]))
    runs = sum("refusal" not in one for one in every)
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    told = (
        f"{runs} of {len(every)} pairs run: {result['rounds']} rounds, {result['clients']} clients. Recorded "
        f"{result['date'][:10]} on {result['device']}, seed {result['seed']}: `{result['command']}`. "
        f"Versions: {versions}."
    )
    sentences = [f"{number}. {sentence}." for number, sentence in enumerate(refusals, 1)]
    return "\n".join(["<!-- engines -->", *lines, "", told, "", "Refusals:", "", *sentences, "<!-- /engines -->"])


def draw() -> None:
    """Put the table in its place on the page."""
    drawn = table(json.loads(RESULT.read_text()))
    text = re.sub(r"<!-- engines -->.*<!-- /engines -->", lambda _: drawn, PAGE.read_text(), flags=re.DOTALL)
    PAGE.write_text(text)


if __name__ == "__main__":
    draw()
