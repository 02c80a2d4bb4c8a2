"""Joining: a participant from its first call to the end of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fedloom.federation.channel import Channel
from fedloom.federation.disk import Disk
from fedloom.federation.hosting import signals
from fedloom.federation.keys import Keys
from fedloom.federation.log import Log, silent
from fedloom.federation.participant import Participant, Trainer
from fedloom.federation.points import from_environment


@dataclass(frozen=True)
class Way:
    """How a participant gets to its server.

    Arguments:
        server: ``host:port``.
        folder: where updates wait, and where what is kept is kept.
        keys: the folder of this participant's key and certificates; ``None`` secures nothing.
        name: what it is called where nothing is secured.
        ready: whether it may be asked to work now; asked again and again.
        patience: seconds without a server after which it gives up.
        compressed: whether files are compressed on their way.
        tell: told of what happens.
    """

    server: str
    folder: Path
    keys: Path | None = None
    name: str = ""
    ready: Callable[[], bool] = field(default=lambda: True)
    patience: float = float("inf")
    compressed: bool = False
    tell: Log = silent


@dataclass(frozen=True)
class Joined:
    """What a participant has in the end: why the run is over, and the final model; nothing if it left before."""

    why: str
    model: dict[str, np.ndarray]


def join(trainer: Trainer, way: Way, version: str) -> Joined:
    """Take part until the run is over, or a signal asks to leave."""
    return asyncio.run(joined(trainer, way, version))


async def joined(trainer: Trainer, way: Way, version: str) -> Joined:
    """The same inside an event loop."""
    keys = Keys.read(way.keys) if way.keys else None
    channel = Channel(way.server, keys, way.name, way.compressed)
    disk = Disk(way.folder, from_environment())
    participant = Participant(
        channel, trainer, disk, version=version, ready=way.ready, tell=way.tell, patience=way.patience
    )
    try:
        async with signals() as asked:
            running, ending = asyncio.create_task(participant.run()), asyncio.create_task(asked.wait())
            await asyncio.wait([running, ending], return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                ending.cancel()
                over, model = running.result()
                return Joined(over.why, model)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return Joined("left before the end", {})
    finally:
        await channel.close()
