import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fedloom.errors import IdentityError
from fedloom.federation.authority import issue, revoke
from fedloom.federation.ledger import issued

UNKNOWN = "0" * 40
TEXTS = dict.fromkeys(("name", "role", "serial", "from", "until", "at"), "x")


def test_the_ledger_remembers_everything(authority: Path) -> None:
    now = datetime(2031, 1, 1, tzinfo=UTC)
    first, second = issue(authority, "alice", days=10, now=now), issue(authority, "bob", role="viewer", now=now)
    assert issued(authority) == [first, second]
    assert dataclasses.astuple(first) == (
        "alice", "client", first.serial, datetime(2030, 12, 31, 23, 55, tzinfo=UTC), datetime(2031, 1, 11, tzinfo=UTC),
        None,
    )  # fmt: skip
    assert json.loads((authority / "issued.json").read_text())["entries"][1] == {
        "name": "bob",
        "role": "viewer",
        "serial": second.serial,
        "from": "2030-12-31T23:55:00+00:00",
        "until": "2032-01-01T00:00:00+00:00",
    }


def test_the_ledger_loses_nobody_when_many_issue_at_once(authority: Path) -> None:
    names = [f"client-{k}" for k in range(12)]
    with ThreadPoolExecutor(4) as pool:
        given = list(pool.map(lambda name: issue(authority, name), names))
    assert {line.serial for line in issued(authority)} == {line.serial for line in given}
    assert {line.name for line in issued(authority)} == set(names)


@pytest.mark.parametrize("name", ["issued.json", "revoked.json"])
@pytest.mark.parametrize("damage", ["", "[{}]", "[]x", json.dumps([{**TEXTS, "serial": UNKNOWN}]), json.dumps([TEXTS])])
def test_a_damaged_ledger_is_not_written_over(authority: Path, name: str, damage: str) -> None:
    (authority / name).write_text(damage)
    for attempt in (lambda: issue(authority, "alice"), lambda: revoke(authority, "a"), lambda: issued(authority)):
        with pytest.raises(IdentityError, match=r"is damaged .* restore it from a copy"):
            attempt()
    assert (authority / name).read_text() == damage
    (authority / name).unlink()
    with pytest.raises(IdentityError, match=f"{name} is missing"):
        issue(authority, "alice")


@pytest.mark.parametrize("name", ["issued.json", "revoked.json"])
def test_any_flipped_byte_is_found(authority: Path, name: str) -> None:
    issue(authority, "alice")
    revoke(authority, "alice")
    whole = (authority / name).read_bytes()
    for i in range(len(whole)):
        (authority / name).write_bytes(whole[:i] + bytes([whole[i] ^ 1 << i % 8]) + whole[i + 1 :])
        with pytest.raises(IdentityError, match="is damaged"):
            issued(authority)


def test_lists_of_an_older_version_are_read_and_get_a_checksum_when_they_change(authority: Path) -> None:
    given = issue(authority, "alice")
    for name in ("issued.json", "revoked.json"):
        (authority / name).write_text(json.dumps(json.loads((authority / name).read_text())["entries"]))
    assert issued(authority) == [given]
    revoke(authority, "alice")
    assert "file_sha256" in json.loads((authority / "revoked.json").read_text())
