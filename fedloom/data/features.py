"""Features: what the numbers of an example are called, and by what they were shifted and scaled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.errors import DataError, require

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


@dataclass(frozen=True)
class Features:
    """The features of a table, along the last axis of ``x``: x = (what the table has - mean) / scale.

    Arguments:
        names: a column of numbers by its name, one of a column of texts as ``column=text``.
        numbers: which are numbers; the others are 1 where the text stands, else 0.
        mean, scale: 0 and 1 for texts.
    """

    names: Sequence[str]
    numbers: Bool[np.ndarray, " features"]
    mean: Float[np.ndarray, " features"]
    scale: Float[np.ndarray, " features"]

    def __len__(self) -> int:
        return len(self.names)

    def to_json(self) -> dict[str, list[Any]]:
        """What another needs to have the same features."""
        arrays = {name: getattr(self, name).tolist() for name in ("numbers", "mean", "scale")}
        return {"names": list(self.names), **arrays}

    def moved(self, x: Float[np.ndarray, "… mine"], to: Features, name: str) -> Float[np.ndarray, "… theirs"]:
        """Examples with these features, as another has them: in their order, by their mean and scale. Texts that are
        not among these are 0; anything else that one has and the other has not is a :class:`DataError`.

        >>> mine, theirs = (of_json({"names": n, "numbers": [True, True], "mean": m, "scale": [1, 2]})
        ...                 for n, m in ((["a", "b"], [0, 10]), (["b", "a"], [0, 0])))
        >>> mine.moved(np.array([[3.0, 1.0]]), theirs, "toy").tolist()
        [[12.0, 1.5]]
        """
        places = {feature: i for i, feature in enumerate(self.names)}
        strange = [feature for feature in self.names if feature not in set(to.names)]
        missing = [f for f, is_number in zip(to.names, to.numbers, strict=True) if is_number and f not in places]
        for what, features in (("are without", strange), ("also are", missing)):
            if features:
                told = ", ".join(features[:6]) + (", …" if len(features) > 6 else "")
                raise DataError(f"{name} must have the server's columns, which {what}: {told}")
        found = np.zeros((*x.shape[:-1], len(to)), np.float32)
        for j, feature in enumerate(to.names):
            if (i := places.get(feature)) is not None:
                found[..., j] = (x[..., i] * self.scale[i] + self.mean[i] - to.mean[j]) / to.scale[j]
        return found


def of_json(told: Mapping[str, Any]) -> Features:
    """The features that another tells of, if they can be used."""
    names = told["names"]
    numbers = np.asarray(told["numbers"], bool)
    mean, scale = (np.asarray(told[name], float) for name in ("mean", "scale"))
    alike = isinstance(names, list) and all(a.shape == (len(names),) for a in (numbers, mean, scale))
    good = alike and bool(np.isfinite(mean).all() and np.isfinite(scale).all() and (scale > 0).all())
    require(good, "the server's features", "names, and as many means and scales above 0", str(told)[:200])
    return Features(names, numbers, mean, scale)
