"""Time how long a transformer takes from `fl.run` to its first round: the first run, the next one, the next process.

The models are PyTorch encoders of width 128 with dropout, of two and of twelve layers, through ``from_torch``. Each run
trains one round on two clients.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Annotated, Any

import numpy as np
import typer

LAYERS = (2, 12)
RUNS = ("first", "second")
WIDTH, PLACES, TOKENS, CLASSES = 128, 64, 1000, 4
CLIENTS, EXAMPLES, BATCH = 2, 128, 32


def runs(layers: int, precision: str) -> dict[str, float]:
    """Return the seconds from the call of `fl.run` to the first round's beginning, compiling included, of each run."""
    import jax
    import torch
    from torch import Tensor, nn

    import fedloom as fl

    class Encoder(nn.Module):
        """Token and place embeddings, encoder layers, the mean over places, a dense layer."""

        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(TOKENS, WIDTH), nn.Parameter(0.02 * torch.randn(PLACES, WIDTH))
            layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.1, batch_first=True, norm_first=True)
            self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            self.out = nn.Linear(WIDTH, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            return self.out(self.layers(self.tokens(x) + self.places).mean(1))

    torch.manual_seed(0)
    rng, many = np.random.default_rng(0), CLIENTS * EXAMPLES
    x, y = rng.integers(0, TOKENS, (many, PLACES)), rng.integers(0, CLASSES, many)
    columns = {"x": x.astype(np.int32), "y": y.astype(np.int32)}
    each = np.full(CLIENTS, EXAMPLES, np.int32)
    ranges = fl.data.Ranges(EXAMPLES * np.arange(CLIENTS, dtype=np.int32), each)
    data = fl.data.FederatedData("drawn", columns, CLASSES, np.arange(many, dtype=np.int32), {"train": ranges}, {})
    task = fl.tasks.from_torch(Encoder(), precision=precision)
    method = fl.fedavg(fraction=1.0, epochs=1, batch_size=BATCH, lr=0.01)
    jax.block_until_ready(jax.device_put(0.0))
    found, rounds = {}, {}
    for name in RUNS:
        begun = time.perf_counter()
        run = fl.run(data, task, method, rounds=3, evaluate=(), every=1)
        whole = time.perf_counter() - begun
        seconds = run.history.column("seconds")
        rounds[name] = float(seconds[-1] - seconds[-2])  # the last round, which compiles nothing
        found[name] = whole - 3 * rounds[name]
    return found


def in_a_process(layers: int, precision: str, cache: str) -> dict[str, float]:
    """Return the same of a process of its own, with its compiled programs in a folder."""
    arguments = [sys.executable, __file__, "--alone", f"{layers},{precision}"]
    environment = os.environ | {"XDG_CACHE_HOME": cache}
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    times: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return times


def main(
    layers: Annotated[str, typer.Option(help="numbers of layers, comma-separated")] = ",".join(map(str, LAYERS)),
    precision: Annotated[str, typer.Option(help="float32 or bfloat16")] = "float32",
    alone: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Time the runs of each model, in two processes one after another that share a cache, empty at first."""
    if alone:
        many, kind = alone.split(",")
        print(json.dumps(runs(int(many), kind)))
        return
    import timing

    rows: list[dict[str, Any]] = []
    for many in map(int, layers.split(",")):
        with tempfile.TemporaryDirectory() as cache:
            first, again = (in_a_process(many, precision, cache) for _ in range(2))
        rows.append({"layers": many, "precision": precision, "first": first["first"], "second": first["second"],
                     "next_process": again["first"]})  # fmt: skip
        print(f"{many} layers, {precision}: first run {first['first']:.2f} s before its rounds, second "
              f"{first['second']:.2f} s, first of the next process {again['first']:.2f} s", flush=True)  # fmt: skip
    timing.keep("compiling", rows=rows)


if __name__ == "__main__":
    typer.run(main)
