import dataclasses
import json
import os
import socket
import ssl
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedloom.errors import ArgumentError, IdentityError, MissingExtra, UnknownName
from fedloom.federation import identity
from fedloom.federation.identity import Identity, Keys, Revoked, fingerprint, identity_of, init, issue, issued, revoke

LONG_AGO = datetime(2020, 2, 29, 12, 0, 30, tzinfo=UTC)
UNKNOWN = "0" * 40
TEXTS = dict.fromkeys(("name", "role", "serial", "from", "until", "at"), "x")


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    return init(tmp_path / "keys", "Hospitals of the north")


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def meet(server: Path, client: Path | None, host: str = "localhost", trusted: Path | None = None) -> Identity | str:
    """Whom a server sees when a client connects over loopback, or why one of them refuses."""
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=server / "ca.pem")
    ours.load_cert_chain(server / "cert.pem", server / "key.pem")
    ours.verify_mode = ssl.CERT_REQUIRED
    theirs = ssl.create_default_context(cafile=(trusted or server) / "ca.pem")
    for context in (ours, theirs):
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # the default of later Pythons
    if client is not None:
        theirs.load_cert_chain(client / "cert.pem", client / "key.pem")

    def serve(listening: socket.socket) -> Identity | str:
        plain, _ = listening.accept()
        try:
            with plain, ours.wrap_socket(plain, server_side=True) as secured:
                secured.settimeout(10)
                der = secured.getpeercert(binary_form=True)
                assert der is not None
                secured.sendall(b"welcome")
                return identity_of(ssl.DER_cert_to_PEM_cert(der).encode())
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
        except (ssl.SSLError, ConnectionError) as error:
            return getattr(error, "reason", None) or str(error)

    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:
        listening.settimeout(10)
        seen = pool.submit(serve, listening)
        try:
            with (
                socket.create_connection(listening.getsockname(), timeout=10) as plain,
                theirs.wrap_socket(plain, server_hostname=host) as secured,
            ):
                welcomed = secured.recv(7) == b"welcome"
        except ssl.SSLCertVerificationError as error:
            return f"client: {error.verify_message}"
        except (ssl.SSLError, ConnectionError):
            welcomed = False
        found = seen.result(10)
    assert welcomed == isinstance(found, Identity)
    return found


def test_a_handshake_tells_who_is_there(authority: Path) -> None:
    issue(authority, "server", role="server", hosts=["localhost", "127.0.0.1", "::1"])
    for name, role in [("alice", "client"), ("anna.b-2_c", "viewer")]:
        given = issue(authority, name, role=role)
        for host in ("localhost", "127.0.0.1"):
            assert meet(authority / "server", authority / name, host) == Identity(name, role, given.serial)


def test_a_server_under_another_name_is_refused(authority: Path) -> None:
    issue(authority, "server", role="server", hosts=["FL.example.org"])
    issue(authority, "alice")
    assert isinstance(meet(authority / "server", authority / "alice", "fl.example.org"), Identity)
    assert "Hostname mismatch" in str(meet(authority / "server", authority / "alice", "localhost"))


def test_who_has_no_certificate_is_refused(authority: Path) -> None:
    issue(authority, "server", role="server", hosts=["localhost"])
    assert meet(authority / "server", None) == "PEER_DID_NOT_RETURN_A_CERTIFICATE"


def test_another_authority_of_the_same_name_is_refused(authority: Path, tmp_path: Path) -> None:
    issue(authority, "server", role="server", hosts=["localhost"])
    other = init(tmp_path / "other", "Hospitals of the north")
    issue(other, "alice")
    trusting = meet(authority / "server", other / "alice")
    assert isinstance(trusting, str)
    assert not trusting.startswith("client")
    assert str(meet(authority / "server", other / "alice", trusted=other / "alice")).startswith("client: ")


def test_who_has_expired_is_refused(tmp_path: Path) -> None:
    authority = init(tmp_path / "keys", "Hospitals", now=LONG_AGO)
    issue(authority, "server", role="server", hosts=["localhost"], days=3650, now=LONG_AGO)
    issue(authority, "alice", days=1, now=LONG_AGO)
    assert meet(authority / "server", authority / "alice") == "certificate has expired"


@pytest.mark.parametrize("role", ["client", "viewer"])
def test_participants_cannot_pose_as_the_server_nor_the_server_as_one(authority: Path, role: str) -> None:
    issue(authority, "server", role="server", hosts=["localhost"])
    issue(authority, "mallory", role=role)
    refused = meet(authority / "mallory", authority / "mallory"), meet(authority / "server", authority / "server")
    assert refused == ("client: unsuitable certificate purpose", "unsuitable certificate purpose")


@pytest.mark.usefixtures("open_umask")
def test_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    authority = init(tmp_path / "deep" / "keys", "Hospitals")
    issue(authority, "anna", role="viewer", browser="secret words")
    assert [mode(authority), mode(authority / "anna")] == [0o700, 0o700]
    secret = [authority / "ca-key.pem", authority / "anna" / "key.pem", authority / "anna" / "browser.p12"]
    assert [mode(path) for path in secret] == [0o600] * 3
    assert "PRIVATE" not in repr(Keys.read(authority / "anna"))


def test_the_authority_signs_others_and_nothing_else(authority: Path) -> None:
    certificate = x509.load_pem_x509_certificate((authority / "ca.pem").read_bytes())
    basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    assert (basic.critical, basic.value.ca, basic.value.path_length) == (True, True, 0)
    assert (usage.critical, usage.value.key_cert_sign, usage.value.digital_signature) == (True, True, False)
    lasts = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert lasts == timedelta(days=3650, minutes=5)
    assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
    assert certificate.public_key().curve.name == "secp256r1"


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


@pytest.mark.parametrize("name", ["", "  ", "x" * 65, "two\nlines"])
def test_bad_names_of_federations(tmp_path: Path, name: str) -> None:
    with pytest.raises(ArgumentError, match="name must be a text of 1 to 64 characters"):
        init(tmp_path / "keys", name)
    assert not (tmp_path / "keys").exists()


@pytest.mark.parametrize(
    "name", ["", "Alice", "a b", "../alice", "a/b", ".hidden", "-a", "älice", "a\n", "x" * 64, "ca.pem", "revoked.json"]
)
def test_bad_names(authority: Path, name: str) -> None:
    with pytest.raises(ArgumentError, match="name must be"):
        issue(authority, name)
    assert issued(authority) == []
    assert issue(authority, "x" * 63).name == "x" * 63


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"role": "admin"}, "role must be one of client, server, viewer, but is 'admin'"),
        ({"days": 0}, "days must be between 1 and 3,650, but is 0"),
        ({"days": 3651}, "days must be between 1 and 3,650, but is 3651"),
        ({"role": "server"}, "hosts must be given for a server, and for nobody else"),
        ({"hosts": ["localhost"]}, "hosts must be given for a server, and for nobody else"),
        ({"role": "server", "hosts": "localhost"}, "hosts must be several texts"),
        ({"role": "server", "hosts": ["10.0.0.300"]}, "hosts must be names such as fl.example.org, or IP addresses"),
        ({"role": "server", "hosts": ["a..b"]}, "hosts must be names"),
        ({"role": "server", "hosts": ["https://fl.example.org"]}, "hosts must be names"),
        ({"role": "server", "hosts": [""]}, "hosts must be names"),
        ({"browser": "secret"}, "browser must be left alone for all but viewers, but is 'given'"),
        ({"role": "viewer", "browser": ""}, "browser must be a passphrase"),
    ],
)
def test_bad_requests_leave_no_trace(authority: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        issue(authority, "alice", **options)
    assert issued(authority) == []
    assert not (authority / "alice").exists()


def test_no_certificate_outlives_its_authority(tmp_path: Path) -> None:
    authority = init(tmp_path / "keys", "Hospitals", now=LONG_AGO)
    late = LONG_AGO + timedelta(days=3600)
    with pytest.raises(ArgumentError, match="days must be at most 50, for the authority itself ends on 2030-02-26"):
        issue(authority, "alice", now=late)
    assert issue(authority, "alice", days=50, now=late).until == LONG_AGO + timedelta(days=3650)
    with pytest.raises(IdentityError, match=r"ca\.pem has expired: it was valid until 2030-02-26 12:00 UTC"):
        issue(authority, "alice", now=late + timedelta(days=51))


def test_the_ledger_remembers_everything(authority: Path) -> None:
    now = datetime(2031, 1, 1, tzinfo=UTC)
    first, second = issue(authority, "alice", days=10, now=now), issue(authority, "bob", role="viewer", now=now)
    assert issued(authority) == [first, second]
    assert dataclasses.astuple(first) == (
        "alice", "client", first.serial, datetime(2030, 12, 31, 23, 55, tzinfo=UTC), datetime(2031, 1, 11, tzinfo=UTC),
        None,
    )  # fmt: skip
    assert json.loads((authority / "issued.json").read_text())[1] == {
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


def test_rotation_keeps_the_certificate_before(authority: Path, tmp_path: Path) -> None:
    issue(authority, "server", role="server", hosts=["localhost"])
    first = issue(authority, "alice")
    (authority / "alice").rename(tmp_path / "alice")
    second = issue(authority, "alice")
    assert first.serial != second.serial
    assert (tmp_path / "alice" / "key.pem").read_bytes() != (authority / "alice" / "key.pem").read_bytes()
    assert meet(authority / "server", tmp_path / "alice") == Identity("alice", "client", first.serial)
    assert meet(authority / "server", authority / "alice") == Identity("alice", "client", second.serial)


def test_rotation_keeps_the_role(authority: Path) -> None:
    issue(authority, "anna", role="viewer", browser="secret words")
    with pytest.raises(ArgumentError, match="role must be viewer, as long as anna has such a certificate, but is 'cl"):
        issue(authority, "anna")
    issue(authority, "anna", role="viewer")
    assert not (authority / "anna" / "browser.p12").exists()  # it held the key before
    revoke(authority, "anna")
    assert issue(authority, "anna").role == "client"


def test_revocation_of_a_name_and_of_a_serial(authority: Path) -> None:
    first, second, bob = issue(authority, "alice"), issue(authority, "alice"), issue(authority, "bob")
    as_openssl_shows = ":".join(first.serial[k : k + 2].upper() for k in range(0, 12, 2))
    assert [line.serial for line in revoke(authority, "alice", as_openssl_shows)] == [first.serial]
    assert [line.revoked is not None for line in issued(authority)] == [True, False, False]
    assert [line.serial for line in revoke(authority, "alice")] == [second.serial]
    assert revoke(authority, "alice") == []
    assert [entry["serial"] for entry in json.loads((authority / "revoked.json").read_text())] == [
        first.serial,
        second.serial,
    ]
    with pytest.raises(UnknownName, match="name must be one of alice, bob, but is 'carol'"):
        revoke(authority, "carol")
    for serial in ("", first.serial):
        with pytest.raises(ArgumentError, match=f"serial must be the beginning of one of {bob.serial}, but is"):
            revoke(authority, "bob", serial)


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


def test_a_folder_without_an_authority(tmp_path: Path) -> None:
    for attempt in (lambda: issue(tmp_path, "alice"), lambda: revoke(tmp_path, "alice"), lambda: issued(tmp_path)):
        with pytest.raises(ArgumentError, match="folder must be one that fedloom keys init has made"):
            attempt()
    assert list(tmp_path.iterdir()) == []


def test_keys_that_are_good(authority: Path) -> None:
    given = issue(authority, "alice")
    keys = Keys.read(authority / "alice")
    assert keys.identity == identity_of(keys.cert) == Identity("alice", "client", given.serial)
    assert keys.ca == (authority / "ca.pem").read_bytes()
    shown = fingerprint(keys.cert)
    assert shown == x509.load_pem_x509_certificate(keys.cert).fingerprint(hashes.SHA256()).hex(":").upper()
    assert len(shown) == 95


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


def signed(subject: list[tuple[x509.ObjectIdentifier, str]], *extensions: x509.ExtensionType) -> bytes:
    """A certificate of whatever form."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(oid, value) for oid, value in subject])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 5, now, now + timedelta(days=1))
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


ALICE = [(NameOID.ORGANIZATIONAL_UNIT_NAME, "client"), (NameOID.COMMON_NAME, "alice")]
LEAF, ABOVE = x509.BasicConstraints(False, None), x509.BasicConstraints(True, None)
CLIENT = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
BOTH = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])


def test_the_expected_form() -> None:
    assert identity_of(signed(ALICE, LEAF, CLIENT)) == Identity("alice", "client", f"{5:040x}")


@pytest.mark.parametrize(
    "pem",
    [
        b"",
        b"no certificate",
        signed(ALICE, LEAF, CLIENT) * 2,
        signed(ALICE[1:], LEAF, CLIENT),
        signed([*ALICE, ALICE[0]], LEAF, CLIENT),
        signed([ALICE[0], (NameOID.COMMON_NAME, "Alice")], LEAF, CLIENT),
        signed([(NameOID.ORGANIZATIONAL_UNIT_NAME, "admin"), ALICE[1]], LEAF, CLIENT),
        signed([(NameOID.ORGANIZATIONAL_UNIT_NAME, "server"), ALICE[1]], LEAF, CLIENT),
        signed(ALICE, LEAF, BOTH),
        signed(ALICE, ABOVE, CLIENT),
        signed(ALICE, LEAF),
        signed(ALICE, CLIENT),
    ],
)
def test_certificates_of_another_form(pem: bytes) -> None:
    with pytest.raises(IdentityError, match="the certificate "):
        identity_of(pem)


def test_the_authority_itself_is_nobody(authority: Path) -> None:
    with pytest.raises(IdentityError, match="the certificate is of no participant"):
        identity_of((authority / "ca.pem").read_bytes())


def test_a_browser_takes_the_file_with_its_passphrase(authority: Path) -> None:
    given = issue(authority, "anna", role="viewer", browser="wörds")
    packed = (authority / "anna" / "browser.p12").read_bytes()
    found = pkcs12.load_pkcs12(packed, "wörds".encode())
    assert found.cert is not None
    assert f"{found.cert.certificate.serial_number:040x}" == given.serial
    with pytest.raises(ValueError, match="password"):
        pkcs12.load_pkcs12(packed, b"words")


def test_the_library_is_an_extra(authority: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    issue(authority, "alice")
    cert = (authority / "alice" / "cert.pem").read_bytes()
    monkeypatch.setattr(identity, "x509", None)
    for attempt in (
        lambda: init(authority / "new", "Hospitals"),
        lambda: issue(authority, "alice"),
        lambda: Keys.read(authority / "alice"),
        lambda: identity_of(cert),
    ):
        with pytest.raises(MissingExtra, match=r"this needs cryptography: pip install 'fedloom\[federation\]'"):
            attempt()
