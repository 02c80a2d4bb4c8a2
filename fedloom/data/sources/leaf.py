"""LEAF: the JSON files of the LEAF benchmark (Caldas et al. 2018), which name the user of every example."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.data.dataset import Dataset
from fedloom.data.files import find, opened
from fedloom.data.inputs import can_be_pixels
from fedloom.data.vocabulary import NAMES, PADDING, SIZE, UNKNOWN, encode
from fedloom.errors import DataError
from fedloom.progress import tracked

if TYPE_CHECKING:
    from jaxtyping import Int, Shaped

KEYS = {"users": list, "num_samples": list, "user_data": dict}
SQUARE = (28, 28)  # of FEMNIST
TWEET = 4  # the place of the tweet in a row of Sent140
LABELS = 2**31  # labels are 32-bit integers


@dataclass(frozen=True)
class _Examples:
    """The examples of one user in one file.

    Arguments:
        where: the file and the user, for errors.
        user: the name of the user.
        x: one row an example.
        y: the labels.
        characters: whether the labels are characters.
        tweets: whether x are texts of any length, padded to the longest one here.
    """

    where: str
    user: str
    x: Shaped[np.ndarray, "n ..."]
    y: Int[np.ndarray, " n"]
    characters: bool
    tweets: bool = False


def leaf(path: str | Path, test: str | Path | None = None, folder: str | Path | None = None) -> Dataset:
    """A data set in LEAF's JSON files: FEMNIST, Shakespeare, Synthetic and others of numbers or of characters.

    Examples of 784 numbers become images of 28 × 28. Other integers (tokens) stay integers if all users have such.
    Texts become the codes of :mod:`fedloom.data.vocabulary`, and so do their labels if those are single characters;
    there are then as many classes as codes. Of Sent140's rows of texts (id, date, query, user, tweet) the tweet is the
    example, padded at its end to the longest tweet of all; the note says how many characters have no code.

    Arguments:
        path: a file, a folder of ``*.json`` files, or one with folders ``train`` and ``test`` of them, here or in the
            data folder.
        test: where LEAF's own test examples are, if elsewhere; a user of both is one user.
        folder: the data folder.

    >>> from tempfile import TemporaryDirectory
    >>> ann, bob = {"x": [[0.5, 1], [2, 3]], "y": [0, 1]}, {"x": [[4, 5]], "y": [1]}
    >>> content = {"users": ["ann", "bob"], "num_samples": [2, 1], "user_data": {"ann": ann, "bob": bob}}
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "toy.json").write_text(json.dumps(content))
    ...     leaf(f"{folder}/toy.json")
    Dataset('leaf/toy': 3 train, 0 validation, 0 test examples of 2 users)
    """
    where = find(path, folder)
    inner = [where / part for part in ("train", "test")]
    if test is None and not any(where.glob("*.json")) and all(any(side.glob("*.json")) for side in inner):
        sides = [_side(side) for side in inner]
    else:
        sides = [_side(where), _side(find(test, folder)) if test is not None else []]
    parts = padded([part for side in sides for part in side])
    _check_alike(parts)
    code = {user: number for number, user in enumerate(dict.fromkeys(part.user for part in parts))}
    x, y = np.concatenate([part.x for part in parts]), np.concatenate([part.y for part in parts])
    boundary = sum(len(part.y) for part in sides[0])
    return Dataset(
        name=f"leaf/{Path(path).stem}",
        columns={"x": x, "y": y},
        classes=SIZE if parts[0].characters else int(y.max()) + 1,
        train=np.arange(boundary),
        test=np.arange(boundary, len(y)),
        users=np.repeat([code[part.user] for part in parts], [len(part.y) for part in parts]).astype(np.int32),
        user_names=tuple(code),
        class_names=NAMES if parts[0].characters else (),
        images=x.shape[1:] == SQUARE and can_be_pixels(x),
        note=_unknown(x) if parts[0].tweets else "",
    )


def padded(parts: list[_Examples]) -> list[_Examples]:
    """Return the parts with tweets padded to the length of the longest."""
    longest = max((part.x.shape[1] for part in parts if part.tweets), default=0)
    return [
        replace(part, x=np.pad(part.x, ((0, 0), (0, longest - part.x.shape[1])), constant_values=PADDING))
        if part.tweets
        else part
        for part in parts
    ]


def _unknown(x: Int[np.ndarray, "n characters"]) -> str:
    """Return a note on how many characters of texts have no code of their own."""
    share = float((x == UNKNOWN).sum() / max((x != PADDING).sum(), 1))
    return f"texts of at most {x.shape[1]:,} characters, {share:.2%} of which have no code of their own"


def _side(path: Path) -> list[_Examples]:
    """The examples in a file or a folder, user by user in the order of the files."""
    files = sorted(path.glob("*.json"), key=_natural) if path.is_dir() else [path]
    if not files:
        raise DataError(f"{path} has no *.json files")
    parts = [part for file in tracked(files, len(files), f"reading {path.name}") for part in _file(file)]
    if not parts:
        raise DataError(f"{path} has no examples")
    return parts


def _natural(path: Path) -> list[tuple[int, str]]:
    """A key that sorts all_data_2 before all_data_10."""
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in re.split(r"(\d+)", path.name)]


def _file(path: Path) -> Iterator[_Examples]:
    """The examples of each user in a file; users without any are nobody."""
    with opened(path, "rt") as file:
        try:
            content = json.load(file)
        except json.JSONDecodeError as error:
            raise DataError(f"{path} is not JSON ({error})") from error
    for user, count in _counts(path, content).items():
        data = content["user_data"][user]
        if not isinstance(data, dict) or not all(isinstance(data.get(key), list) for key in "xy"):
            raise DataError(f"{path}, user {user}: user_data must have the lists x and y")
        for key in "xy":
            if len(data[key]) != count:
                raise DataError(f"{path}, user {user}: num_samples is {count}, but {key} has {len(data[key]):,} values")
        if count:
            yield _examples(f"{path}, user {user}", user, data["x"], data["y"])


def _counts(path: Path, content: Any) -> dict[str, int]:
    """How many examples each user should have."""
    for key, kind in KEYS.items():
        if not isinstance(content, dict) or not isinstance(content.get(key), kind):
            raise DataError(f"{path} is not a LEAF file: it must have {key}, a {kind.__name__}")
    users, samples, data = [str(user) for user in content["users"]], content["num_samples"], content["user_data"]
    if len(users) != len(samples):
        raise DataError(f"{path} has {len(users):,} users, but num_samples of {len(samples):,}")
    counts = dict(zip(users, samples, strict=True))
    if len(counts) != len(users):
        twice = next(user for user in users if users.count(user) > 1)
        raise DataError(f"{path} lists the user {twice} more than once")
    for user in [*users, *data]:
        if user not in data or user not in counts:
            has, lacks = ("users", "user_data") if user in counts else ("user_data", "users")
            raise DataError(f"{path}, user {user}: is in {has}, but not in {lacks}")
    return counts


def _examples(where: str, user: str, x: list[Any], y: list[Any]) -> _Examples:
    if _is_tweet(x[0]):
        return _Examples(where, user, _tweets(where, x), _labels(where, y), characters=False, tweets=True)
    if not isinstance(x[0], str):
        return _Examples(where, user, _numbers(where, x), _labels(where, y), characters=False)
    for row, text in enumerate(x):
        if not isinstance(text, str) or len(text) != len(x[0]):
            raise DataError(f"{where}: x must be texts of {len(x[0])} characters, but row {row:,} is {str(text)[:60]}")
    codes = encode("".join(x)).reshape(len(x), -1)
    characters = isinstance(y[0], str)
    return _Examples(where, user, codes, _characters(where, y) if characters else _labels(where, y), characters)


def _is_tweet(row: Any) -> bool:
    """True if a row is one of Sent140's: texts, the tweet among them."""
    return isinstance(row, list) and len(row) > TWEET and all(isinstance(cell, str) for cell in row)


def _tweets(where: str, x: list[Any]) -> Int[np.ndarray, "n characters"]:
    """Return the codes of the tweets of a user, padded to the longest."""
    for row, cells in enumerate(x):
        if not _is_tweet(cells):
            told = str(cells)[:60]
            raise DataError(f"{where}: x must be rows of id, date, query, user and tweet, but row {row:,} is {told}")
    codes = [encode(cells[TWEET]) for cells in x]
    longest = max(1, *(len(code) for code in codes))
    return np.stack([np.pad(code, (0, longest - len(code)), constant_values=PADDING) for code in codes])


def _numbers(where: str, x: list[Any]) -> Shaped[np.ndarray, "n ..."]:
    try:
        values = np.array(x)
    except ValueError as error:
        raise DataError(f"{where}: x must be lists of equally many numbers ({error})") from error
    if values.dtype.kind not in "iuf" or values.ndim < 2:
        raise DataError(f"{where}: x must be lists of numbers, but the first is {str(x[0])[:60]}")
    return values.reshape(-1, *SQUARE) if values.shape[1:] == (784,) else values


def _labels(where: str, y: list[Any]) -> Int[np.ndarray, " n"]:
    for row, label in enumerate(y):
        try:
            whole = int(label) == float(label) and 0 <= int(label) < LABELS
        except (TypeError, ValueError, OverflowError):
            whole = False
        if not whole:
            raise DataError(f"{where}: y must be whole numbers from 0 on, but row {row:,} is {str(label)[:60]!r}")
    return np.array([int(label) for label in y], np.int32)


def _characters(where: str, y: list[Any]) -> Int[np.ndarray, " n"]:
    for row, label in enumerate(y):
        if not isinstance(label, str) or len(label) != 1:
            raise DataError(f"{where}: y must be single characters, but row {row:,} is {str(label)[:60]!r}")
    return encode("".join(y)).astype(np.int32)


def _check_alike(parts: list[_Examples]) -> None:
    """All users must have the same kind of examples."""
    first = parts[0]
    for part in parts:
        for what, one, other in (
            (
                "x",
                *(
                    f"{'texts' if some.x.dtype == np.int8 else 'numbers'} of {some.x.shape[1:]}"
                    for some in (first, part)
                ),
            ),
            ("y", *("characters" if some.characters else "numbers" for some in (first, part))),
        ):
            if one != other:
                raise DataError(f"{part.where}: {what} is {other}, but {one} in {first.where}")
