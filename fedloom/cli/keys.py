"""Keys: who may take part, by certificates of one's own."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fedloom.cli.shared import Debug, Json, Quiet, tell, told
from fedloom.errors import require
from fedloom.federation import authority, certificate
from fedloom.federation.folder import BROWSER, CA
from fedloom.federation.ledger import Issued, issued

keys_app = typer.Typer(
    help="Say who may take part: an authority of one's own, and a certificate for everyone.", no_args_is_help=True
)
SOON = timedelta(days=30)  # before the end of a certificate, it is time for another

Folder = Annotated[Path, typer.Argument(help="folder of the authority")]
Name = Annotated[str, typer.Argument(help="of the participant: a-z, 0-9, '.', '_' and '-'")]


@keys_app.command("init")
def init_command(
    folder: Annotated[Path, typer.Argument(help="folder to make; nothing is ever overwritten")],
    name: Annotated[str, typer.Option(help="of the federation, for people to read")] = "fedloom",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Make an authority: a key that signs certificates for the server and for everyone who takes part.

    Do this once, on a machine that is neither the server nor a participant's if you can, and keep a copy of the
    folder. Whoever reads ca-key.pem can be anybody.

    Example: fedloom keys init keys --name "Hospitals of the north"
    """
    with told(debug):
        made = authority.init(folder, name)
        shown = certificate.fingerprint((made / CA).read_bytes())
        tell(quiet, False, None, f"Authority: {escape(str(made))}, for ten years", f"Fingerprint: {shown}",
             "Next: certificates for the server and for everyone who takes part, with fedloom keys issue")  # fmt: skip


@keys_app.command("issue")
def issue_command(
    folder: Folder,
    name: Name,
    server: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="for the server: names and addresses by which it is reached, with commas", metavar="HOST,…"),
    ] = None,
    viewer: Annotated[bool, typer.Option("--viewer", help="for looking at the web page, not for taking part")] = False,
    days: Annotated[int, typer.Option(help="how long it is valid")] = 365,
    browser: Annotated[bool, typer.Option("--browser", help="for a viewer: also a browser.p12, to import")] = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Issue a key and a certificate: for a client, the server, or a viewer of the web page.

    They are in the folder FOLDER/NAME, which is all that the participant needs: copy it there.

    Issue again before a certificate ends; the one before stays valid until its end, or until it is revoked.

    Examples:
      fedloom keys issue keys server --server fl.example.org,10.0.0.7

      fedloom keys issue keys st-mary --days 90

      fedloom keys issue keys anna --viewer --browser
    """
    with told(debug):
        require(not (server is not None and viewer), "role", "one: --server or --viewer", "both")
        require(not (browser and quiet), "quiet", "left alone with --browser, whose passphrase is shown once", True)
        role = "viewer" if viewer else "client" if server is None else "server"
        hosts = server.split(",") if server is not None else []
        passphrase = secrets.token_urlsafe(12) if browser else None
        given = authority.issue(folder, name, hosts=hosts, days=days, role=role, browser=passphrase)
        tell(quiet, False, None, f"{given.name} ({given.role}): {escape(str(folder / name))}, "
             f"serial {given.serial[:8]}, until {given.until:%Y-%m-%d}")  # fmt: skip
        if passphrase:
            tell(quiet, False, None, f"Passphrase of {BROWSER}, shown this once: {passphrase}")


@keys_app.command("revoke")
def revoke_command(
    folder: Folder,
    name: Name,
    serial: Annotated[Optional[str], typer.Option(help="of the only certificate meant; its beginning suffices")] = None,  # noqa: UP045
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Revoke all certificates of a participant, or one: they are no longer accepted.

    A server that reads FOLDER/revoked.json refuses them from then on, without a restart; to a server elsewhere, copy
    that file.

    Examples:
      fedloom keys revoke keys st-mary

      fedloom keys revoke keys st-mary --serial 3f9a02c1
    """
    with told(debug):
        revoked = authority.revoke(folder, name, serial)
        lines = [f"Revoked: {line.name}, serial {line.serial[:8]}" for line in revoked]
        tell(quiet, False, None, *(lines or [f"Nothing to do: {escape(name)} was revoked before"]))


@keys_app.command("list")
def list_command(folder: Folder, json_: Json = False, debug: Debug = False) -> None:
    """List every certificate that was issued, and which are valid, nearly expired, expired or revoked.

    Example: fedloom keys list keys
    """
    with told(debug):
        lines, now = issued(folder), datetime.now(UTC)
        tell(False, json_, [as_json(line, now) for line in lines], table(lines, now))


def state(line: Issued, now: datetime) -> str:
    """What a certificate is worth: valid, soon (to expire), expired or revoked."""
    if line.revoked is not None:
        return "revoked"
    if now > line.until:
        return "expired"
    return "soon" if line.until - now < SOON else "valid"


def as_json(line: Issued, now: datetime) -> dict[str, str | None]:
    """What is known of a certificate, for scripts."""
    return {
        "name": line.name,
        "role": line.role,
        "serial": line.serial,
        "from": line.since.isoformat(),
        "until": line.until.isoformat(),
        "revoked": line.revoked.isoformat() if line.revoked else None,
        "state": state(line, now),
    }


def table(lines: Sequence[Issued], now: datetime) -> Table:
    """The ledger for people."""
    shown = Table()
    for column in ("name", "role", "serial", "until", "state"):
        shown.add_column(column, no_wrap=True)
    styles = {"valid": "green", "soon": "yellow", "expired": "dim", "revoked": "red"}
    for line in sorted(lines, key=lambda line: (line.name, line.until)):
        found = state(line, now)
        word = f"{(line.until - now).days} days left" if found == "soon" else found
        shown.add_row(line.name, line.role, line.serial[:8], f"{line.until:%Y-%m-%d}", Text(word, styles[found]))
    return shown
