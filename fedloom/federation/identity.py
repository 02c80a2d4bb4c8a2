"""Identity: who somebody is, by the name and the role that stand in a certificate."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass

from fedloom.errors import IdentityError, require
from fedloom.federation.certificate import parsed, serial_of, use_of
from fedloom.federation.folder import CA, CA_KEY, LEDGER, REVOKED

with suppress(ImportError):  # an extra: whoever needs it is told so
    from cryptography import x509
    from cryptography.x509.oid import NameOID

ROLES = {
    "server": "proves itself to participants under its hosts' names",
    "client": "takes part",
    "viewer": "looks at the web page and does not take part",
}
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


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


def check_name(name: str) -> None:
    """Raise an :class:`ArgumentError` unless a participant may be called so."""
    alphabet = "1 to 63 of a-z, 0-9, '.', '_' and '-', a letter or digit first"
    require(isinstance(name, str) and bool(NAME.fullmatch(name)), "name", alphabet, name)
    require(name not in (CA_KEY, CA, LEDGER, REVOKED), "name", "other than a file of the authority", name)


def identity_of(pem: bytes) -> Identity:
    """Who a certificate names, if it has the form of those that :func:`fedloom.federation.authority.issue` gives.

    Whether it is genuine is for TLS to say, which checks signature and dates before anybody is asked.
    """
    certificate = parsed(pem)
    subject = [(part.oid, str(part.value)) for part in certificate.subject]
    if [oid for oid, _ in subject] != [NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.COMMON_NAME]:
        raise IdentityError(f"the certificate is of no participant: it names {certificate.subject.rfc4514_string()!r}")
    (_, role), (_, name) = subject
    try:
        uses = list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
        signs = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension) as error:
        raise IdentityError(f"the certificate of {name!r} is not of the expected form ({error})") from error
    if role not in ROLES or not NAME.fullmatch(name) or signs or uses != [use_of(role)]:
        raise IdentityError(f"the certificate of {name!r} is not of the expected form (as {role!r})")
    return Identity(name, role, serial_of(certificate))
