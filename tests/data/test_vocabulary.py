import gzip
import json

import numpy as np

from fedloom.data.sources.shakespeare import FILE
from fedloom.data.vocabulary import CHARACTERS, NAMES, PADDING, SIZE, UNKNOWN, decode, encode


def test_the_characters_are_those_of_the_plays() -> None:
    with gzip.open(FILE, "rt", encoding="utf-8") as file:
        used = {character for line in file for text in json.loads(line)["lines"] for character in text}
    assert "".join(sorted(used | {"\n"})) == CHARACTERS
    assert (PADDING, UNKNOWN, SIZE, len(NAMES)) == (0, 83, 84, 84)


def test_every_character_has_a_code_of_its_own() -> None:
    codes = encode(CHARACTERS)
    assert codes.dtype == np.int8
    assert codes.tolist() == list(range(1, 83))
    assert decode(codes) == CHARACTERS
    assert (NAMES[0], NAMES[1], NAMES[2], NAMES[3], NAMES[82], NAMES[83]) == (
        "padding", "newline", "space", "!", "{", "unknown",
    )  # fmt: skip


def test_other_characters_are_unknown() -> None:
    assert encode("#~\0é–😀\ud800").tolist() == [83] * 7
    assert encode("").tolist() == []
    assert decode(np.array([0, 3, 83, 0])) == "!�"
