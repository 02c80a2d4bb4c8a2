"""Certificate: X.509 certificates and their keys, made, signed and read. All of it needs the extra ``federation``."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fedloom.errors import IdentityError, MissingExtra, require

try:
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import pkcs12
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:  # an extra: whoever needs it is told so
    x509 = None  # type: ignore[assignment]

LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
HOST = re.compile(rf"(?=.{{1,253}}$)(?!(.*\.)?\d+$){LABEL}(\.{LABEL})*")  # 10.0.0.300 is neither address nor name
SKEW = timedelta(minutes=5)  # clocks that are late still take a new certificate


def needed() -> None:
    """Raise a :class:`MissingExtra` unless the library is there."""
    if x509 is None:
        raise MissingExtra("cryptography", "federation")


def new_key() -> ec.EllipticCurvePrivateKey:
    """A private key, as everybody has one."""
    return ec.generate_private_key(ec.SECP256R1())


def key_of(pem: bytes, path: Path) -> ec.EllipticCurvePrivateKey:
    """The private key in a file's text; ``path`` says in errors which file."""
    try:
        key = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise IdentityError(f"{path} is no private key in PEM without a passphrase ({error})") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise IdentityError(f"{path} is no key of an elliptic curve, as fedloom makes them")
    return key


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key as text, without a passphrase."""
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


def parsed(pem: bytes, what: str | Path = "the certificate") -> x509.Certificate:
    """The only certificate in a text; ``what`` is what errors call it."""
    needed()
    try:
        (certificate,) = x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise IdentityError(f"{what} is not one certificate in PEM ({error})") from error
    return certificate


def pem_of(certificate: x509.Certificate) -> bytes:
    """A certificate as text."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def serial_of(certificate: x509.Certificate) -> str:
    """Its number, forty hexadecimal digits."""
    return f"{certificate.serial_number:040x}"


def expiry_of(pem: bytes) -> float:
    """When a certificate ends, in seconds since 1970."""
    return parsed(pem).not_valid_after_utc.timestamp()


def fingerprint(cert: bytes) -> str:
    """The SHA-256 of a certificate, as browsers and openssl show it: to compare over the telephone."""
    return parsed(cert).fingerprint(hashes.SHA256()).hex(":").upper()


def check_time(certificate: x509.Certificate, path: Path, now: datetime) -> None:
    """Raise an :class:`IdentityError` unless a certificate is valid now; ``path`` is where it was read."""
    since, until = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now > until:
        raise IdentityError(f"{path} has expired: it was valid until {until:%Y-%m-%d %H:%M} UTC")
    if now < since:
        raise IdentityError(f"{path} is not yet valid: it is from {since:%Y-%m-%d %H:%M} UTC on; is the clock right?")


def second(now: datetime | None) -> datetime:
    """Now or another time, as certificates write it: in UTC, without fractions."""
    return (now or datetime.now(UTC)).astimezone(UTC).replace(microsecond=0)


def subject(name: str, role: str | None = None) -> x509.Name:
    """Whom a certificate is about: a participant in its role, or an authority, which has none."""
    unit = [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, role)] if role else []
    return x509.Name([*unit, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def use_of(role: str) -> x509.ObjectIdentifier:
    """What a role's certificate proves in TLS: that somebody is a server, or a client of one."""
    return ExtendedKeyUsageOID.SERVER_AUTH if role == "server" else ExtendedKeyUsageOID.CLIENT_AUTH


def alternatives(hosts: Iterable[str]) -> list[x509.GeneralName]:
    """Names and addresses of a server, as its certificate holds them."""
    require(not isinstance(hosts, str), "hosts", "several texts, such as ('fl.example.org',)", hosts)
    found: list[x509.GeneralName] = []
    for host in hosts:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            require(bool(HOST.fullmatch(host.lower())), "hosts", "names such as fl.example.org, or IP addresses", host)
            found.append(x509.DNSName(host.lower()))
    return found


def extensions(
    role: str | None = None, hosts: Sequence[x509.GeneralName] = ()
) -> list[tuple[x509.ExtensionType, bool]]:
    """What a certificate is for: without a role, to sign others."""
    ca = role is None
    usage = x509.KeyUsage(
        digital_signature=not ca, key_cert_sign=ca, crl_sign=ca, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    return [
        (x509.BasicConstraints(ca, path_length=0 if ca else None), True),
        (usage, True),
        *([(x509.ExtendedKeyUsage([use_of(role)]), False)] if role else []),
        *([(x509.SubjectAlternativeName(hosts), False)] if hosts else []),
    ]


def signed(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    signer: ec.EllipticCurvePrivateKey,
    since: datetime,
    until: datetime,
    extensions: Sequence[tuple[x509.ExtensionType, bool]],
) -> x509.Certificate:
    """A certificate; each extension says whether it is critical."""
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(since - SKEW)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(signer, hashes.SHA256())


def for_browsers(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    certificate: x509.Certificate,
    authority: x509.Certificate,
    passphrase: str,
) -> bytes:
    """A key and its certificates in one file that browsers import, which shows the name."""
    kept = serialization.BestAvailableEncryption(passphrase.encode())
    return pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, [authority], kept)
