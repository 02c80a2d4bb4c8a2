"""Replaced methods: in one thread, until the context ends."""

import threading

import pytest

from fedloom.tasks.replacing import replaced


class Layer:
    def call(self, x: int) -> int:
        return x


class Own(Layer):
    def call(self, x: int) -> int:
        return -x


class Extended(Layer):
    def call(self, x: int) -> int:
        return super().call(x) + 1


METHODS = {(Layer, "call"): lambda call, self, x: 10 * call(self, x)}


def test_subclasses_that_define_the_method_keep_theirs() -> None:
    before = vars(Layer)["call"]
    with replaced(METHODS):
        assert (Layer().call(2), Own().call(2), Extended().call(2)) == (20, -2, 21)
    assert Layer().call(2) == 2 and vars(Layer)["call"] is before


def test_contexts_nest_and_end_with_an_error() -> None:
    before = vars(Layer)["call"]
    with pytest.raises(ZeroDivisionError), replaced(METHODS):
        with replaced({(Layer, "call"): lambda call, self, x: 3 * call(self, x)}):
            assert Layer().call(2) == 6
        assert Layer().call(2) == 20
        1 / 0  # noqa: B018
    assert vars(Layer)["call"] is before


def test_a_class_without_the_method_is_left_as_it_was() -> None:
    before = vars(Layer)["call"]
    with pytest.raises(KeyError), replaced({**METHODS, (Own, "other"): print}):
        pass
    assert vars(Layer)["call"] is before and Layer().call(2) == 2


def test_threads_do_not_see_each_others_replacements() -> None:
    before, found = vars(Layer)["call"], {}
    entered, left = threading.Event(), threading.Event()

    def other() -> None:
        found["without"] = Layer().call(2)
        with replaced({(Layer, "call"): lambda call, self, x: 7 * call(self, x)}):
            entered.set()
            assert left.wait(10)
            found["after the first has left"] = Layer().call(2)

    thread = threading.Thread(target=other)
    with replaced(METHODS):
        thread.start()
        assert entered.wait(10)
        found["first"] = Layer().call(2)
    left.set()
    thread.join()
    assert found == {"without": 2, "first": 20, "after the first has left": 14}
    assert vars(Layer)["call"] is before
