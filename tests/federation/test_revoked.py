from pathlib import Path

import pytest

from fedloom.errors import ArgumentError, IdentityError
from fedloom.federation.authority import issue, revoke
from fedloom.federation.revoked import Revoked

UNKNOWN = "0" * 40


def test_revocation_is_noticed_at_once(authority: Path) -> None:
    alice, bob = issue(authority, "alice"), issue(authority, "bob")
    revoked = Revoked(authority / "revoked.json")
    assert alice.serial not in revoked
    revoke(authority, "alice")
    assert alice.serial in revoked
    assert bob.serial not in revoked
    revoke(authority, "bob")
    assert bob.serial in revoked


def test_revocations_are_read_only_when_they_have_changed(authority: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    revoked = Revoked(authority / "revoked.json")
    monkeypatch.setattr(Path, "open", lambda *_: pytest.fail("it is read again"))
    assert UNKNOWN not in revoked


@pytest.mark.parametrize(
    "damage", [b"", b"[{", b"{}", b"[1]", b'[{"serial": 5}]', b'[{"serial": "AB:CD"}]', b"\xff", None]
)
def test_without_a_good_list_nobody_is_let_in(authority: Path, damage: bytes | None) -> None:
    alice, bob = issue(authority, "alice"), issue(authority, "bob")
    revoke(authority, "alice")
    path = authority / "revoked.json"
    revoked, good = Revoked(path), path.read_bytes()
    path.unlink()
    if damage is not None:
        path.write_bytes(damage)
    for _ in range(2):
        assert alice.serial in revoked
        with pytest.raises(IdentityError, match=r"revoked\.json (is damaged|cannot be read)"):
            _ = bob.serial in revoked
    with pytest.raises(IdentityError, match=r"revoked\.json"):
        Revoked(path)
    path.write_bytes(good)
    assert alice.serial in revoked
    assert bob.serial not in revoked


def test_a_serial_of_another_form_is_not_taken_for_accepted(authority: Path) -> None:
    given = issue(authority, "alice")
    revoke(authority, "alice")
    for serial in (given.serial.upper() + "A", given.serial[:8], ""):
        with pytest.raises(ArgumentError, match="serial must be 40 hexadecimal digits"):
            _ = serial in Revoked(authority / "revoked.json")
