from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from fedloom.errors import IdentityError
from fedloom.federation.authority import init, issue
from fedloom.federation.identity import Identity, identity_of
from fedloom.federation.keys import Keys


def test_keys_that_are_good(authority: Path) -> None:
    given = issue(authority, "alice")
    keys = Keys.read(authority / "alice")
    assert keys.identity == identity_of(keys.cert) == Identity("alice", "client", given.serial)
    assert keys.ca == (authority / "ca.pem").read_bytes()


@pytest.mark.parametrize("name", ["key.pem", "cert.pem", "ca.pem"])
def test_keys_that_are_missing_unreadable_or_damaged(authority: Path, name: str) -> None:
    issue(authority, "alice")
    path = authority / "alice" / name
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(IdentityError, match=rf"{name} is (no private key|not one certificate) in PEM"):
        Keys.read(authority / "alice")
    path.unlink()
    with pytest.raises(IdentityError, match=f"{name} is missing"):
        Keys.read(authority / "alice")
    path.mkdir()
    with pytest.raises(IdentityError, match=f"{name} cannot be read"):
        Keys.read(authority / "alice")


def test_keys_that_do_not_belong_together(authority: Path, tmp_path: Path) -> None:
    for name in ("alice", "bob"):
        issue(authority, name)
    alice, other = authority / "alice", init(tmp_path / "other", "Hospitals of the north")
    (alice / "ca.pem").write_bytes((other / "ca.pem").read_bytes())
    with pytest.raises(IdentityError, match=r"cert\.pem was not issued by .*ca\.pem"):
        Keys.read(alice)
    (alice / "key.pem").write_bytes((authority / "bob" / "key.pem").read_bytes())
    with pytest.raises(IdentityError, match=r"key\.pem is not the key of .*cert\.pem"):
        Keys.read(alice)


def test_keys_of_nobody(authority: Path, tmp_path: Path) -> None:
    for name, kept in {"key.pem": "ca-key.pem", "cert.pem": "ca.pem", "ca.pem": "ca.pem"}.items():
        (tmp_path / name).write_bytes((authority / kept).read_bytes())
    with pytest.raises(IdentityError, match="the certificate is of no participant"):
        Keys.read(tmp_path)


def test_keys_of_other_kinds(authority: Path) -> None:
    issue(authority, "alice")
    path, key = authority / "alice" / "key.pem", rsa.generate_private_key(65537, 2048)
    kept = serialization.BestAvailableEncryption(b"secret")
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path.write_bytes(key.private_bytes(*form, kept))
    with pytest.raises(IdentityError, match=r"key\.pem is no private key in PEM without a passphrase"):
        Keys.read(authority / "alice")
    path.write_bytes(key.private_bytes(*form, serialization.NoEncryption()))
    with pytest.raises(IdentityError, match=r"key\.pem is no key of an elliptic curve"):
        Keys.read(authority / "alice")


def test_keys_out_of_time(authority: Path) -> None:
    now = datetime.now(UTC)
    issue(authority, "alice", days=2, now=now)
    day, ends = timedelta(days=1), now + timedelta(days=2)
    with pytest.raises(IdentityError, match=rf"cert\.pem has expired: it was valid until {ends:%Y-%m-%d %H:%M} UTC"):
        Keys.read(authority / "alice", now=now + 3 * day)
    with pytest.raises(IdentityError, match=r"cert\.pem is not yet valid: .* is the clock right"):
        Keys.read(authority / "alice", now=now - day)
    assert Keys.read(authority / "alice", now=now + day) == Keys.read(authority / "alice")
