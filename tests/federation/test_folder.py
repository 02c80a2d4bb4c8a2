import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedloom.errors import ArgumentError
from fedloom.federation.authority import init, issue, revoke
from fedloom.federation.keys import Keys
from fedloom.federation.ledger import issued


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("open_umask")
def test_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    authority = init(tmp_path / "deep" / "keys", "Hospitals")
    issue(authority, "anna", role="viewer", browser="secret words")
    assert [mode(authority), mode(authority / "anna")] == [0o700, 0o700]
    secret = [authority / "ca-key.pem", authority / "anna" / "key.pem", authority / "anna" / "browser.p12"]
    assert [mode(path) for path in secret] == [0o600] * 3
    assert "PRIVATE" not in repr(Keys.read(authority / "anna"))


def test_an_authority_is_never_overwritten(authority: Path, tmp_path: Path) -> None:
    before = (authority / "ca-key.pem").read_bytes()
    with pytest.raises(ArgumentError, match="folder must be new or empty, for an authority is never overwritten"):
        init(authority, "Hospitals")
    assert (authority / "ca-key.pem").read_bytes() == before
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ArgumentError, match="new or empty"):
        init(tmp_path / "file", "Hospitals")
    (tmp_path / "empty").mkdir(mode=0o755)
    assert issued(init(tmp_path / "empty", "Hospitals")) == []
    assert mode(tmp_path / "empty") == 0o700


def test_a_folder_without_an_authority(tmp_path: Path) -> None:
    for attempt in (lambda: issue(tmp_path, "alice"), lambda: revoke(tmp_path, "alice"), lambda: issued(tmp_path)):
        with pytest.raises(ArgumentError, match="folder must be one that fedloom keys init has made"):
            attempt()
    assert list(tmp_path.iterdir()) == []
