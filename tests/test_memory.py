"""Memory: when the C library keeps what a round has freed."""

import platform

import pytest

from fedloom.memory import OWN, keep_freed


def test_options_of_the_user_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who has set options of the allocator keeps them."""
    monkeypatch.setenv(f"{OWN[0]}ARENA_MAX", "4")
    assert not keep_freed()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_glibc_takes_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without options of the user, every option is taken."""
    for name in ("MALLOC_ARENA_MAX", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_MAX_", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    assert keep_freed()
