"""Schedule: on which device each client of a cohort is computed."""

from __future__ import annotations

import numpy as np

from fedloom.keys import END, INIT, PEERS, client_key, stream

__all__ = ["END", "INIT", "PEERS", "client_key", "deal", "stream"]


def deal(cohort: np.ndarray, steps: np.ndarray, devices: int) -> np.ndarray:
    """Deal each cohort to devices, the longest work first, each to the device with the least so far.

    Arguments:
        cohort: client numbers, shape (…, m).
        steps: how many steps each of them takes, same shape.

    Returns:
        Client numbers, shape (…, devices, m): a device's clients from the longest to the shortest, then -1.

    >>> deal(np.array([[7, 8, 9]]), np.array([[1, 5, 3]]), devices=2).tolist()
    [[[8, -1, -1], [9, 7, -1]]]
    """
    *lead, m = cohort.shape
    order = np.argsort(-steps, axis=-1, kind="stable").reshape(-1, m)
    flat = np.take_along_axis(cohort.reshape(-1, m), order, axis=1)
    work = np.take_along_axis(steps.reshape(-1, m), order, axis=1)
    if devices == 1:
        return flat.reshape(*lead, 1, m)
    dealt = np.full((len(flat), devices, m), -1, np.int32)
    load, filled = np.zeros((len(flat), devices), np.int64), np.zeros((len(flat), devices), np.int64)
    rows = np.arange(len(flat))
    for i in range(m):
        least = load == load.min(axis=1, keepdims=True)
        to = np.argmin(np.where(least, filled, m + 1), axis=1)  # with the least work, the one with the fewest clients
        dealt[rows, to, filled[rows, to]] = flat[:, i]
        filled[rows, to] += 1
        load[rows, to] += work[:, i]
    return dealt.reshape(*lead, devices, m)
