"""Replacing: methods of a library's classes have another form while a module is traced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from threading import Lock
from types import MappingProxyType
from typing import Any

Method = tuple[type, str]
"""A class and the name of one of its methods."""
Replacement = Callable[..., Any]
"""(the method of the library, the object, its arguments) → the result."""

_active: ContextVar[Mapping[Method, Replacement]] = ContextVar("_active", default=MappingProxyType({}))
_lock = Lock()
_installed: dict[Method, tuple[Any, int]] = {}  # the library's method, and how many contexts replace it


@contextmanager
def replaced(methods: Mapping[Method, Replacement]) -> Iterator[None]:
    """Replace methods of classes inside, for this thread; other threads get the library's own.

    Subclasses that define the method keep theirs.

    >>> class Greeting:
    ...     def text(self): return "hello"
    >>> with replaced({(Greeting, "text"): lambda library, self: library(self).upper()}):
    ...     Greeting().text()
    'HELLO'
    >>> Greeting().text()
    'hello'
    """
    token = _active.set({**_active.get(), **methods})
    done: list[Method] = []
    try:
        for method in methods:
            _install(method)
            done.append(method)
        yield
    finally:
        for method in done:
            _remove(method)
        _active.reset(token)


def _install(method: Method) -> None:
    owner, name = method
    with _lock:
        before, contexts = _installed.get(method, (vars(owner)[name], 0))
        if not contexts:
            setattr(owner, name, _switch(method, getattr(owner, name)))
        _installed[method] = before, contexts + 1


def _remove(method: Method) -> None:
    owner, name = method
    with _lock:
        before, contexts = _installed.pop(method)
        if contexts > 1:
            _installed[method] = before, contexts - 1
        else:
            setattr(owner, name, before)


def _switch(method: Method, library: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that calls the replacement in threads that have one, and the library's method elsewhere."""

    @wraps(library)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        replacement = _active.get().get(method)
        if replacement is None:
            return library(self, *arguments, **options)
        return replacement(library, self, *arguments, **options)

    return call
