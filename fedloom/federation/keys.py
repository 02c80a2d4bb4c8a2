"""Keys: what a participant proves itself with, and knows others by."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from fedloom.errors import IdentityError
from fedloom.federation.certificate import check_time, key_of, needed, parsed, second
from fedloom.federation.folder import CA, CERT, KEY, contents
from fedloom.federation.identity import Identity, identity_of

with suppress(ImportError):  # an extra: whoever needs it is told so
    from cryptography.exceptions import InvalidSignature


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
        needed()
        paths, at = [Path(folder) / name for name in (KEY, CERT, CA)], second(now)
        keys = cls(*(contents(path) for path in paths))
        key, cert, ca = key_of(keys.key, paths[0]), parsed(keys.cert, paths[1]), parsed(keys.ca, paths[2])
        if key.public_key() != cert.public_key():
            raise IdentityError(f"{paths[0]} is not the key of {paths[1]}: copy the folder again")
        try:
            cert.verify_directly_issued_by(ca)
        except (ValueError, TypeError, InvalidSignature) as error:
            raise IdentityError(f"{paths[1]} was not issued by {paths[2]}: copy the folder again") from error
        check_time(cert, paths[1], at)
        identity_of(keys.cert)
        return keys

    @property
    def identity(self) -> Identity:
        """Whose they are."""
        return identity_of(self.cert)
