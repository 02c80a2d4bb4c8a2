from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedloom.errors import IdentityError
from fedloom.federation.identity import Identity, identity_of


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
