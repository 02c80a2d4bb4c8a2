import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import pkcs12
from rich.text import Text
from typer.testing import CliRunner, Result

from fedloom.cli import app
from fedloom.cli.keys import state, table
from fedloom.federation import certificate
from fedloom.federation.authority import issue
from fedloom.federation.keys import Keys
from fedloom.federation.ledger import Issued

NOW = datetime(2031, 6, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def keys(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["keys", *arguments], catch_exceptions=False)


def made() -> None:
    assert keys("init", "keys", "--name", "Hospitals of the north", "--quiet").output == ""


def test_from_an_authority_to_a_list() -> None:
    result = keys("init", "keys", "--name", "Hospitals of the north")
    assert result.exit_code == 0
    assert re.search(r"Fingerprint: ([0-9A-F]{2}:){31}[0-9A-F]{2}\n", result.stdout)
    assert "until" in keys("issue", "keys", "server", "--server", "fl.example.org,10.0.0.7").stdout
    assert "keys/alice" in keys("issue", "keys", "alice", "--days", "90").stdout
    assert keys("issue", "keys", "anna", "--viewer", "--quiet").output == ""
    listed = json.loads(keys("list", "keys", "--json").stdout)["results"]
    assert [(line["name"], line["role"], line["state"]) for line in listed] == [
        ("server", "server", "valid"),
        ("alice", "client", "valid"),
        ("anna", "viewer", "valid"),
    ]
    assert set(listed[0]) == {"name", "role", "serial", "from", "until", "revoked", "state"}
    days = datetime.fromisoformat(listed[1]["until"]) - datetime.fromisoformat(listed[1]["from"])
    assert days == timedelta(days=90, minutes=5)
    shown = keys("list", "keys").stdout
    assert all(line["serial"][:8] in shown and line["name"] in shown for line in listed)
    assert Keys.read("keys/anna").identity.role == "viewer"


def test_a_fingerprint_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    known = ":".join(["AB", "CD"] * 16)  # for rich, :AB: is a picture
    monkeypatch.setattr(certificate, "fingerprint", lambda _: known)
    assert f"Fingerprint: {known}\n" in keys("init", "keys").stdout


def test_revoking_a_name_or_a_serial() -> None:
    made()
    first, second = (issue("keys", "alice") for _ in range(2))
    assert first.serial[:8] in keys("revoke", "keys", "alice", "--serial", first.serial[:8]).stdout
    assert second.serial[:8] in keys("revoke", "keys", "alice").stdout
    assert "alice was revoked before" in keys("revoke", "keys", "alice").stdout
    assert {line["state"] for line in json.loads(keys("list", "keys", "--json").stdout)["results"]} == {"revoked"}


def test_a_browsers_passphrase_is_shown_once() -> None:
    made()
    told = re.search(r"shown this once: (\S+)", keys("issue", "keys", "anna", "--viewer", "--browser").stdout)
    assert told
    assert len(told[1]) == 16
    assert pkcs12.load_pkcs12(Path("keys/anna/browser.p12").read_bytes(), told[1].encode()).key is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["init", "keys"], "folder must be new or empty"),
        (["issue", "keys", "Alice"], "name must be 1 to 63 of a-z, 0-9"),
        (["issue", "keys", "a", "--server", "localhost", "--viewer"], "role must be one: --server or --viewer"),
        (["issue", "keys", "a", "--server", ""], "hosts must be names such as fl.example.org"),
        (["issue", "keys", "a", "--days", "0"], "days must be between 1 and 3,650, but is 0"),
        (["issue", "keys", "a", "--browser"], "browser must be left alone for all but viewers"),
        (["issue", "keys", "a", "--viewer", "--browser", "-q"], "quiet must be left alone with --browser"),
        (["issue", "nowhere", "a"], "folder must be one that fedloom keys init has made, but is 'nowhere'"),
        (["revoke", "keys", "bob"], "name must be one of alice, but is 'bob'"),
        (["revoke", "keys", "alice", "--serial", "xyz"], "serial must be the beginning of one of"),
        (["list", "nowhere"], "folder must be one that fedloom keys init has made"),
        (["list", "damaged"], "damaged/issued.json is damaged"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments: list[str], message: str) -> None:
    made()
    issue("keys", "alice")
    keys("init", "damaged")
    Path("damaged/issued.json").write_text("[")
    result = keys(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("days", "revoked", "expected", "shown", "style"),
    [
        (31, False, "valid", "valid", "green"),
        (30, False, "valid", "valid", "green"),
        (29, False, "soon", "29 days left", "yellow"),
        (0, False, "soon", "0 days left", "yellow"),
        (-1, False, "expired", "expired", "dim"),
        (31, True, "revoked", "revoked", "red"),
    ],
)
def test_what_a_certificate_is_worth(days: int, revoked: bool, expected: str, shown: str, style: str) -> None:
    ends = NOW + timedelta(days=days)
    line = Issued("alice", "client", "ab" * 20, NOW - timedelta(days=9), ends, NOW if revoked else None)
    assert state(line, NOW) == expected
    drawn = table([line], NOW)
    *texts, word = (next(iter(column.cells)) for column in drawn.columns)
    assert texts == ["alice", "client", "abababab", f"{ends:%Y-%m-%d}"]
    assert isinstance(word, Text)
    assert (word.plain, word.style) == (shown, style)


def test_help_teaches_with_examples() -> None:
    for command in ("init", "issue", "revoke", "list"):
        assert f"fedloom keys {command} keys" in keys(command, "--help").stdout
