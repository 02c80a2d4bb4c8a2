"""Identity: a private authority, and certificates in which the name and the role of a participant stand.

An authority is a folder. Its key never leaves it; each participant gets a folder of its own, which is all it needs::

    ca-key.pem    what signs, for the owner's eyes only
    ca.pem        the authority's certificate
    issued.json   the ledger: every certificate that was ever issued
    revoked.json  those that are no longer accepted; the server rereads it when it changes
    alice/        key.pem, cert.pem, ca.pem: copy this folder to alice
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fedloom.data.files import replacing
from fedloom.errors import ArgumentError, IdentityError, MissingExtra, UnknownName, choose, require, whole

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import pkcs12
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:  # an extra: whoever needs it is told so
    x509 = None  # type: ignore[assignment]

CA_KEY, CA, LEDGER, REVOKED, LOCK = "ca-key.pem", "ca.pem", "issued.json", "revoked.json", ".lock"
KEY, CERT, BROWSER = "key.pem", "cert.pem", "browser.p12"
ROLES = {
    "server": "proves itself to participants under its hosts' names",
    "client": "takes part",
    "viewer": "looks at the web page and does not take part",
}
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
HOST = re.compile(rf"(?=.{{1,253}}$)(?!(.*\.)?\d+$){LABEL}(\.{LABEL})*")  # 10.0.0.300 is neither address nor name
SERIAL = re.compile(r"[0-9a-f]{40}")
YEARS = 3650  # days that an authority lasts, and at most a certificate
SKEW = timedelta(minutes=5)  # clocks that are late still take a new certificate


@dataclass(frozen=True)
class Identity:
    """Who a certificate says its owner is.

    Arguments:
        name: of the participant.
        role: server, client or viewer.
        serial: of the certificate, forty hexadecimal digits.
    """

    name: str
    role: str
    serial: str


@dataclass(frozen=True)
class Issued:
    """A line of the ledger.

    Arguments:
        name, role, serial: as in :class:`Identity`.
        since, until: when the certificate is valid.
        revoked: when it was revoked, if it was.
    """

    name: str
    role: str
    serial: str
    since: datetime
    until: datetime
    revoked: datetime | None = None


def init(folder: str | Path, name: str, *, now: datetime | None = None) -> Path:
    """A new authority in a new or empty folder.

    Arguments:
        folder: where; only its owner may look into it.
        name: of the federation, as people will read it in the certificates.
        now: when the ten years of its certificate begin.
    """
    folder, since = Path(folder), _second(now)
    require(bool(name.strip()) and len(name) <= 64 and name.isprintable(), "name", "a text of 1 to 64 characters", name)
    empty = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    require(empty, "folder", "new or empty, for an authority is never overwritten", str(folder))
    _needed()
    key, subject = ec.generate_private_key(ec.SECP256R1()), _subject(name)
    authority = _signed(subject, key, subject, key, since, since + timedelta(days=YEARS), _extensions())
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    _write(folder / LEDGER, b"[]\n")
    _write(folder / REVOKED, b"[]\n")
    _write(folder / CA_KEY, _key_pem(key), 0o600)
    _write(folder / CA, _pem(authority))
    return folder


def issue(
    folder: str | Path,
    name: str,
    *,
    hosts: Iterable[str] = (),
    days: int = 365,
    role: str = "client",
    browser: str | None = None,
    now: datetime | None = None,
) -> Issued:
    """A new key and certificate for a participant, in the folder of its name.

    To issue again is to rotate: the certificate before stays valid until it expires or is revoked.

    Arguments:
        folder: of the authority.
        name: of the participant.
        hosts: names and addresses under which a server is reached.
        days: how long the certificate is valid.
        role: server, client or viewer.
        browser: the passphrase of a viewer's ``browser.p12``, a file for browsers; there is none without.
        now: when those days begin.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as home:
    ...     authority = init(f"{home}/keys", "Hospitals of the north")
    ...     given = issue(authority, "st-mary")
    ...     identity_of(Keys.read(authority / "st-mary").cert) == Identity("st-mary", "client", given.serial)
    True
    """
    _needed()
    folder, since = _authority(folder), _second(now)
    check_name(name)
    choose("role", role, ROLES)
    whole("days", days, 1, YEARS)
    until, names = since + timedelta(days=days), _hosts(hosts)
    require(bool(names) == (role == "server"), "hosts", "given for a server, and for nobody else", names)
    require(browser is None or role == "viewer", "browser", "left alone for all but viewers", "given")
    require(browser != "", "browser", "a passphrase", browser)
    with _alone(folder):
        signer, authority = _key(_bytes(folder / CA_KEY), folder / CA_KEY), _parsed(_bytes(folder / CA), folder / CA)
        known = issued(folder)
        _check_ends(authority, folder / CA, since, days)
        _check_role(name, role, [line for line in known if line.until >= since and not line.revoked])
        key, extensions = ec.generate_private_key(ec.SECP256R1()), _extensions(role, names)
        certificate = _signed(_subject(name, role), key, authority.subject, signer, since, until, extensions)
        given = Issued(name, role, _serial(certificate), certificate.not_valid_before_utc, until)
        _write_ledger(folder, [*known, given])  # first: what is not in the ledger could not be revoked by name
        _hand_over(folder / name, key, certificate, authority, browser)
    return given


def revoke(folder: str | Path, name: str, serial: str | None = None) -> list[Issued]:
    """Certificates that are no longer accepted from now on: those that were still accepted before.

    Arguments:
        folder: of the authority.
        name: of the participant, all of whose certificates are meant.
        serial: of the only one that is meant; its beginning suffices.
    """
    folder, at = _authority(folder), _second(None)
    with _alone(folder):
        known = issued(folder)
        meant = [line for line in known if line.name == name]
        if not meant:
            raise UnknownName("name", name, {line.name for line in known})
        if serial is not None:
            start = serial.lower().replace(":", "")
            found = [line for line in meant if start and line.serial.startswith(start)]
            if len(found) != 1:
                raise ArgumentError("serial", "the beginning of one of " + ", ".join(m.serial for m in meant), serial)
            meant = found
        fresh = [line for line in meant if line.revoked is None]
        entries = _entries(folder / REVOKED, ("serial", "name", "at"))
        entries += [{"serial": line.serial, "name": line.name, "at": at.isoformat()} for line in fresh]
        _write(folder / REVOKED, _json(entries))
    return fresh


def issued(folder: str | Path) -> list[Issued]:
    """Every certificate that an authority has issued, the oldest first."""
    folder = _authority(folder)
    lines = _entries(folder / LEDGER, ("name", "role", "serial", "from", "until"))
    entries = _entries(folder / REVOKED, ("serial", "at"))
    try:
        ends = {entry["serial"]: datetime.fromisoformat(entry["at"]) for entry in entries}
        return [
            Issued(
                line["name"], line["role"], line["serial"], datetime.fromisoformat(line["from"]),
                datetime.fromisoformat(line["until"]), ends.get(line["serial"]),
            )
            for line in lines
        ]  # fmt: skip
    except ValueError as error:
        raise IdentityError(f"{folder / LEDGER} or {REVOKED} is damaged ({error}): restore it from a copy") from error


def identity_of(pem: bytes) -> Identity:
    """Who a certificate names, if it has the form of those that :func:`issue` gives.

    Whether it is genuine is for TLS to say, which checks signature and dates before anybody is asked.
    """
    certificate = _parsed(pem)
    subject = [(part.oid, str(part.value)) for part in certificate.subject]
    if [oid for oid, _ in subject] != [NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.COMMON_NAME]:
        raise IdentityError(f"the certificate is of no participant: it names {certificate.subject.rfc4514_string()!r}")
    (_, role), (_, name) = subject
    try:
        uses = list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
        signs = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension) as error:
        raise IdentityError(f"the certificate of {name!r} is not of the expected form ({error})") from error
    if role not in ROLES or not NAME.fullmatch(name) or signs or uses != [_use(role)]:
        raise IdentityError(f"the certificate of {name!r} is not of the expected form (as {role!r})")
    return Identity(name, role, _serial(certificate))


def expiry_of(pem: bytes) -> float:
    """When a certificate ends, in seconds since 1970."""
    return _parsed(pem).not_valid_after_utc.timestamp()


def fingerprint(cert: bytes) -> str:
    """The SHA-256 of a certificate, as browsers and openssl show it: to compare over the telephone."""
    return _parsed(cert).fingerprint(hashes.SHA256()).hex(":").upper()


class Revoked:
    """The serials that are no longer accepted: ``identity.serial in revoked`` rereads the file when it has changed.

    A file that is missing or damaged closes the door: what was known to be revoked stays so, and for everybody else
    the question raises an :class:`IdentityError`, until the file is good again. At the beginning it must be good.

    Arguments:
        path: of ``revoked.json``.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._known: tuple[tuple[int, ...], frozenset[str]] = ((), frozenset())
        self._read()

    def __contains__(self, serial: str) -> bool:
        require(bool(SERIAL.fullmatch(serial)), "serial", "40 hexadecimal digits", serial)
        try:
            return serial in self._read()
        except IdentityError:
            if serial in self._known[1]:
                return True
            raise

    def _read(self) -> frozenset[str]:
        try:
            if _stamp(self.path.stat()) != self._known[0]:
                with self.path.open("rb") as file:
                    stamp, raw = _stamp(os.fstat(file.fileno())), file.read()
                entries = _checked(self.path, raw, ("serial",))
                self._known = stamp, frozenset(entry["serial"] for entry in entries)  # at once, for other threads
        except OSError as error:
            raise IdentityError(f"{self.path} cannot be read ({error}): nobody is let in without it") from error
        return self._known[1]


@dataclass(frozen=True)
class Keys:
    """What a participant proves itself with, and knows others by: three PEM files.

    Arguments:
        key: its private key.
        cert: its certificate.
        ca: the certificate of the authority.
    """

    key: bytes = field(repr=False)
    cert: bytes
    ca: bytes

    @classmethod
    def read(cls, folder: str | Path, *, now: datetime | None = None) -> Keys:
        """The keys in a participant's folder, if they belong together and are valid today (or at ``now``)."""
        _needed()
        paths, at = [Path(folder) / name for name in (KEY, CERT, CA)], _second(now)
        keys = cls(*(_bytes(path) for path in paths))
        key, cert, ca = _key(keys.key, paths[0]), _parsed(keys.cert, paths[1]), _parsed(keys.ca, paths[2])
        if key.public_key() != cert.public_key():
            raise IdentityError(f"{paths[0]} is not the key of {paths[1]}: copy the folder again")
        try:
            cert.verify_directly_issued_by(ca)
        except (ValueError, TypeError, InvalidSignature) as error:
            raise IdentityError(f"{paths[1]} was not issued by {paths[2]}: copy the folder again") from error
        _in_time(cert, paths[1], at)
        identity_of(keys.cert)
        return keys

    @property
    def identity(self) -> Identity:
        """Whose they are."""
        return identity_of(self.cert)


# The authority's folder


def _authority(folder: str | Path) -> Path:
    require((Path(folder) / CA).exists(), "folder", "one that fedloom keys init has made", str(folder))
    return Path(folder)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Inside, no other process changes the ledger."""
    import fcntl

    with (folder / LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _hand_over(
    folder: Path,
    key: ec.EllipticCurvePrivateKey,
    certificate: x509.Certificate,
    authority: x509.Certificate,
    passphrase: str | None,
) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / BROWSER).unlink(missing_ok=True)  # of the certificate before
    _write(folder / KEY, _key_pem(key), 0o600)
    _write(folder / CERT, _pem(certificate))
    _write(folder / CA, _pem(authority))
    if passphrase is not None:
        kept = serialization.BestAvailableEncryption(passphrase.encode())
        packed = pkcs12.serialize_key_and_certificates(folder.name.encode(), key, certificate, [authority], kept)
        _write(folder / BROWSER, packed, 0o600)


def _write(path: Path, content: bytes, mode: int | None = None) -> None:
    with replacing(path) as temporary:
        if mode is not None:
            temporary.chmod(mode)  # before there is anything to read
        temporary.write_bytes(content)


def _write_ledger(folder: Path, lines: Sequence[Issued]) -> None:
    entries = [
        {"name": line.name, "role": line.role, "serial": line.serial, "from": line.since.isoformat(),
         "until": line.until.isoformat()}
        for line in lines
    ]  # fmt: skip
    _write(folder / LEDGER, _json(entries))


def _json(entries: list[dict[str, str]]) -> bytes:
    return (json.dumps(entries, indent=1) + "\n").encode()


def _entries(path: Path, fields: Sequence[str]) -> list[dict[str, str]]:
    return _checked(path, _bytes(path), fields)


def _checked(path: Path, raw: bytes, fields: Sequence[str]) -> list[dict[str, str]]:
    """A list of records with at least these texts. A serial in another spelling would never be found: an error too."""
    try:
        entries = json.loads(raw)
        for entry in entries if isinstance(entries, list) else [None]:
            if not (isinstance(entry, dict) and all(isinstance(entry.get(name), str) for name in fields)):
                raise ValueError(f"not a list of records with {', '.join(fields)}")
            if not SERIAL.fullmatch(entry["serial"]):
                raise ValueError(f"{entry['serial']!r} is no serial of 40 hexadecimal digits")
    except ValueError as error:
        raise IdentityError(f"{path} is damaged ({error}): restore it from a copy") from error
    return entries


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise IdentityError(f"{path} is missing") from error
    except OSError as error:
        raise IdentityError(f"{path} cannot be read ({error})") from error


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size


# Names and times


def check_name(name: str) -> None:
    """Raise an :class:`ArgumentError` unless a participant may be called so."""
    alphabet = "1 to 63 of a-z, 0-9, '.', '_' and '-', a letter or digit first"
    require(isinstance(name, str) and bool(NAME.fullmatch(name)), "name", alphabet, name)
    require(name not in (CA_KEY, CA, LEDGER, REVOKED), "name", "other than a file of the authority", name)


def _check_role(name: str, role: str, valid: Sequence[Issued]) -> None:
    """A rotation does not make a client of a viewer by mistake."""
    for other in valid:
        if other.name == name:
            require(other.role == role, "role", f"{other.role}, as long as {name} has such a certificate", role)


def _hosts(hosts: Iterable[str]) -> list[x509.GeneralName]:
    require(not isinstance(hosts, str), "hosts", "several texts, such as ('fl.example.org',)", hosts)
    found: list[x509.GeneralName] = []
    for host in hosts:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            require(bool(HOST.fullmatch(host.lower())), "hosts", "names such as fl.example.org, or IP addresses", host)
            found.append(x509.DNSName(host.lower()))
    return found


def _check_ends(authority: x509.Certificate, path: Path, since: datetime, days: int) -> None:
    _in_time(authority, path, since)
    ends = authority.not_valid_after_utc
    most = (ends - since).days
    require(days <= most, "days", f"at most {most:,}, for the authority itself ends on {ends:%Y-%m-%d}", days)


def _second(now: datetime | None) -> datetime:
    return (now or datetime.now(UTC)).astimezone(UTC).replace(microsecond=0)


def _in_time(certificate: x509.Certificate, path: Path, now: datetime) -> None:
    since, until = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now > until:
        raise IdentityError(f"{path} has expired: it was valid until {until:%Y-%m-%d %H:%M} UTC")
    if now < since:
        raise IdentityError(f"{path} is not yet valid: it is from {since:%Y-%m-%d %H:%M} UTC on; is the clock right?")


# Keys and certificates


def _needed() -> None:
    if x509 is None:
        raise MissingExtra("cryptography", "federation")


def _key(pem: bytes, path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise IdentityError(f"{path} is no private key in PEM without a passphrase ({error})") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise IdentityError(f"{path} is no key of an elliptic curve, as fedloom makes them")
    return key


def _parsed(pem: bytes, what: str | Path = "the certificate") -> x509.Certificate:
    _needed()
    try:
        (certificate,) = x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise IdentityError(f"{what} is not one certificate in PEM ({error})") from error
    return certificate


def _serial(certificate: x509.Certificate) -> str:
    return f"{certificate.serial_number:040x}"


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


def _subject(name: str, role: str | None = None) -> x509.Name:
    unit = [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, role)] if role else []
    return x509.Name([*unit, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _use(role: str) -> x509.ObjectIdentifier:
    return ExtendedKeyUsageOID.SERVER_AUTH if role == "server" else ExtendedKeyUsageOID.CLIENT_AUTH


def _signed(
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


def _extensions(
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
        *([(x509.ExtendedKeyUsage([_use(role)]), False)] if role else []),
        *([(x509.SubjectAlternativeName(hosts), False)] if hosts else []),
    ]
