"""Folder: what an authority keeps, and what it gives to each participant.

An authority is a folder. Its key never leaves it; each participant gets a folder of its own, which is all it needs::

    ca-key.pem    what signs, for the owner's eyes only
    ca.pem        the authority's certificate
    issued.json   the ledger: every certificate that was ever issued
    revoked.json  those that are no longer accepted; the server rereads it when it changes
    alice/        key.pem, cert.pem, ca.pem: copy this folder to alice
"""

from __future__ import annotations

from pathlib import Path

from fedloom.data.files import replacing
from fedloom.errors import IdentityError, require

CA_KEY, CA, LEDGER, REVOKED, LOCK = "ca-key.pem", "ca.pem", "issued.json", "revoked.json", ".lock"
KEY, CERT, BROWSER = "key.pem", "cert.pem", "browser.p12"


def authority_in(folder: str | Path) -> Path:
    """The folder of an authority, if it is one."""
    require((Path(folder) / CA).exists(), "folder", "one that fedloom keys init has made", str(folder))
    return Path(folder)


def contents(path: Path) -> bytes:
    """What is in a file; an :class:`IdentityError` names the one that is not there."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise IdentityError(f"{path} is missing") from error
    except OSError as error:
        raise IdentityError(f"{path} cannot be read ({error})") from error


def write(path: Path, content: bytes, mode: int | None = None) -> None:
    """A file in one piece or not at all, with these permissions if they are not to be a new file's."""
    with replacing(path) as temporary:
        if mode is not None:
            temporary.chmod(mode)  # before there is anything to read
        temporary.write_bytes(content)
