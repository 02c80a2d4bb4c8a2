"""Authority: one's own, which says by certificates who may take part, and takes its word back.

It is a folder: :mod:`fedloom.federation.folder` says what is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from fedloom.errors import ArgumentError, UnknownName, choose, require, whole
from fedloom.federation.certificate import (
    alternatives,
    check_time,
    extensions,
    for_browsers,
    key_of,
    key_pem,
    needed,
    new_key,
    parsed,
    pem_of,
    second,
    serial_of,
    signed,
    subject,
)
from fedloom.federation.folder import BROWSER, CA, CA_KEY, CERT, KEY, authority_in, contents, write
from fedloom.federation.identity import ROLES, check_name
from fedloom.federation.ledger import Issued, add_revoked, alone, issued, write_empty, write_issued

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

YEARS = 3650  # days that an authority lasts, and at most a certificate


def init(folder: str | Path, name: str, *, now: datetime | None = None) -> Path:
    """A new authority in a new or empty folder.

    Arguments:
        folder: where; only its owner may look into it.
        name: of the federation, as people will read it in the certificates.
        now: when the ten years of its certificate begin.
    """
    folder, since = Path(folder), second(now)
    require(bool(name.strip()) and len(name) <= 64 and name.isprintable(), "name", "a text of 1 to 64 characters", name)
    empty = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    require(empty, "folder", "new or empty, for an authority is never overwritten", str(folder))
    needed()
    key, itself = new_key(), subject(name)
    authority = signed(itself, key, itself, key, since, since + timedelta(days=YEARS), extensions())
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    write_empty(folder)
    write(folder / CA_KEY, key_pem(key), 0o600)
    write(folder / CA, pem_of(authority))
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
    >>> from fedloom.federation.identity import Identity
    >>> from fedloom.federation.keys import Keys
    >>> with TemporaryDirectory() as home:
    ...     authority = init(f"{home}/keys", "Hospitals of the north")
    ...     given = issue(authority, "st-mary")
    ...     Keys.read(authority / "st-mary").identity == Identity("st-mary", "client", given.serial)
    True
    """
    needed()
    folder, since = authority_in(folder), second(now)
    check_name(name)
    choose("role", role, ROLES)
    whole("days", days, 1, YEARS)
    until, names = since + timedelta(days=days), alternatives(hosts)
    require(bool(names) == (role == "server"), "hosts", "given for a server, and for nobody else", names)
    require(browser is None or role == "viewer", "browser", "left alone for all but viewers", "given")
    require(browser != "", "browser", "a passphrase", browser)
    with alone(folder):
        signer = key_of(contents(folder / CA_KEY), folder / CA_KEY)
        authority = parsed(contents(folder / CA), folder / CA)
        known = issued(folder)
        _check_ends(authority, folder / CA, since, days)
        _check_role(name, role, [line for line in known if line.until >= since and not line.revoked])
        key, about = new_key(), subject(name, role)
        certificate = signed(about, key, authority.subject, signer, since, until, extensions(role, names))
        given = Issued(name, role, serial_of(certificate), certificate.not_valid_before_utc, until)
        write_issued(folder, [*known, given])  # first: what is not in the ledger could not be revoked by name
        _hand_over(folder / name, key, certificate, authority, browser)
    return given


def revoke(folder: str | Path, name: str, serial: str | None = None) -> list[Issued]:
    """Certificates that are no longer accepted from now on: those that were still accepted before.

    Arguments:
        folder: of the authority.
        name: of the participant, all of whose certificates are meant.
        serial: of the only one that is meant; its beginning suffices.
    """
    folder, at = authority_in(folder), second(None)
    with alone(folder):
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
        add_revoked(folder, fresh, at)
    return fresh


def _check_role(name: str, role: str, valid: Sequence[Issued]) -> None:
    """A rotation does not make a client of a viewer by mistake."""
    for other in valid:
        if other.name == name:
            require(other.role == role, "role", f"{other.role}, as long as {name} has such a certificate", role)


def _check_ends(authority: x509.Certificate, path: Path, since: datetime, days: int) -> None:
    check_time(authority, path, since)
    ends = authority.not_valid_after_utc
    most = (ends - since).days
    require(days <= most, "days", f"at most {most:,}, for the authority itself ends on {ends:%Y-%m-%d}", days)


def _hand_over(
    folder: Path,
    key: ec.EllipticCurvePrivateKey,
    certificate: x509.Certificate,
    authority: x509.Certificate,
    passphrase: str | None,
) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / BROWSER).unlink(missing_ok=True)  # of the certificate before
    write(folder / KEY, key_pem(key), 0o600)
    write(folder / CERT, pem_of(certificate))
    write(folder / CA, pem_of(authority))
    if passphrase is not None:
        write(folder / BROWSER, for_browsers(folder.name, key, certificate, authority, passphrase), 0o600)
