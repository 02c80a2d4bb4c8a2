import json
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from fedloom.errors import ArgumentError, IdentityError, UnknownName
from fedloom.federation.authority import init, issue, revoke
from fedloom.federation.identity import Identity, identity_of
from fedloom.federation.ledger import issued

LONG_AGO = datetime(2020, 2, 29, 12, 0, 30, tzinfo=UTC)


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
    assert [entry["serial"] for entry in json.loads((authority / "revoked.json").read_text())["entries"]] == [
        first.serial,
        second.serial,
    ]
    with pytest.raises(UnknownName, match="name must be one of alice, bob, but is 'carol'"):
        revoke(authority, "carol")
    for serial in ("", first.serial):
        with pytest.raises(ArgumentError, match=f"serial must be the beginning of one of {bob.serial}, but is"):
            revoke(authority, "bob", serial)


def test_a_browser_takes_the_file_with_its_passphrase(authority: Path) -> None:
    given = issue(authority, "anna", role="viewer", browser="wörds")
    packed = (authority / "anna" / "browser.p12").read_bytes()
    found = pkcs12.load_pkcs12(packed, "wörds".encode())
    assert found.cert is not None
    assert f"{found.cert.certificate.serial_number:040x}" == given.serial
    with pytest.raises(ValueError, match="password"):
        pkcs12.load_pkcs12(packed, b"words")
