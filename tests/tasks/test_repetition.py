"""Repetition: stretches of a sequence that repeat a part."""

import numpy as np

from fedloom.tasks.repetition import Repetition, repetitions


def test_a_stretch_may_end_within_the_part() -> None:
    [found] = repetitions(np.array([5, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 9]), least=3)
    assert found == Repetition(1, 11, 3)
    assert found.count == 3


def test_two_stretches_are_both_found_and_too_few_parts_are_none() -> None:
    values = np.array([1, 2, 1, 2, 7, 3, 4, 3, 4, 3, 4])
    assert repetitions(values, least=2) == [Repetition(0, 4, 2), Repetition(5, 11, 2)]
    assert repetitions(values, least=3) == [Repetition(5, 11, 2)]
    assert repetitions(values, least=4) == []
