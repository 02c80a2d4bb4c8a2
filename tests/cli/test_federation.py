"""The commands of a federation: what they refuse, and what a server may and may not say to a participant."""

import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedloom.cli.app import app
from fedloom.cli.federation import SAID, shown
from fedloom.federation.authority import init, issue
from fedloom.runs import Experiment


def said(*arguments: str) -> str:
    """What an erroneous command says."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


def test_certificates_or_an_open_word(tmp_path: Path) -> None:
    for command in ("server", "client"):
        assert "keys must be a folder that fedloom keys issue made (or say --insecure)" in said(command)
    assert "address must be this machine's own" in said(
        "server", "--insecure", "--listen", "0.0.0.0:1", "--out", str(tmp_path / "out")
    )
    assert "name must be given without certificates" in said("client", "--insecure", "--data", "mnist")
    assert "name must be 1 to 63 of a-z" in said("client", "--insecure", "--data", "mnist", "--name", "A!")
    out = str(tmp_path / "other")
    assert "key.pem is missing" in said("server", "--keys", str(tmp_path / "nowhere"), "--out", out)
    assert "a host and a port" in said("server", "--insecure", "--listen", "127.0.0.1:99999", "--out", out)
    assert "a host and a port" in said("client", "--insecure", "--name", "a", "--data", "mnist", "--server", "nohost")
    assert not Path(out).exists()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--algorithm", "dpa-sgd"), "algorithm must be one with a server and one model for all"),
        (("--algorithm", "ifca"), "algorithm must be one with a server and one model for all"),
        (("--quorum", "2"), "quorum must be above 0 and at most 1"),
        (("--compute", "0.1"), "compute must be left alone over a network"),
        (("--inputs", "standard"), "inputs must be unit or centred over a network"),
        (("--shape", "28,28"), "shape and classes must be given together"),
        (("--pardon", "nobody"), "pardon must be a participant that has come"),
    ],
)
def test_a_server_refuses_what_cannot_be(tmp_path: Path, options: tuple[str, ...], why: str) -> None:
    assert why in said("server", "--insecure", "--out", str(tmp_path / "out"), *options)


def test_another_experiment_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "experiment.toml").write_text(Experiment(lr=0.5).to_toml())
    assert "holds another experiment" in said("server", "--insecure", "--out", str(tmp_path))


def test_a_folder_without_its_journal_needs_a_word(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "state").write_bytes(b"a state")
    told = said("server", "--insecure", "--out", str(tmp_path))
    assert "holds the states of a run, but its journal.sqlite is missing: restore the journal, or say --new-run" in told
    with socket.create_server(("127.0.0.1", 0)) as taken:  # so that the new run ends at once
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        told = said("server", "--insecure", "--new-run", "--listen", address, "--page", "none", "--out", str(tmp_path))
    assert f"Warning: a new run begins in {tmp_path}; the files of the run before are in {tmp_path}/before-1" in told
    assert (tmp_path / "before-1" / "files" / "state").read_bytes() == b"a state"


def test_status_of_nothing(tmp_path: Path) -> None:
    assert "holds no run of a server" in said("status", str(tmp_path))


def test_a_port_that_is_taken_is_one_sentence_and_takes_no_folder(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port, out = taken.getsockname()[1], tmp_path / "out"
        told = said("server", "--insecure", "--listen", f"127.0.0.1:{port}", "--page", "none", "--out", str(out))
    assert "address must be one that this machine has and that is free" in told
    assert not (out / "experiment.toml").exists()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--round-seconds", "nan"), "round_seconds must be above 0 seconds, but is nan"),
        (("--wait-seconds", "-1"), "wait_seconds must be at least 0 seconds, but is -1.0"),
        (("--most-norm", "0"), "most_norm must be above 0, but is 0.0"),
        (("--every", "3"), "every must be left alone over a network, where every round is judged, but is 3"),
        (("--evaluate", "train", "--target", "none"), "evaluate must be test over a network"),
    ],
)
def test_options_are_called_by_their_names(tmp_path: Path, options: tuple[str, ...], why: str) -> None:
    assert why in said("server", "--insecure", "--out", str(tmp_path / "out"), *options)


def test_a_server_needs_a_servers_certificate(tmp_path: Path) -> None:
    keys = init(tmp_path / "keys", "here")
    issue(keys, "north")
    told = said("server", "--keys", str(keys / "north"), "--out", str(tmp_path / "out"))
    assert "keys must be a server's (fedloom keys issue … --server HOST)" in told
    assert not (tmp_path / "out").exists()


def test_a_strange_certificate_is_not_called_an_absent_server() -> None:
    lost = SAID[False, "lost"]
    assert lost({"why": "connection refused", "again": 1.0}) == "no server (connection refused); again in 1.0 s"
    strange = lost({"why": "SSL: CERTIFICATE_VERIFY_FAILED", "again": 1.0})
    assert strange.startswith("its certificate is not of the authority in ca.pem, or is for another host (SSL")


def test_a_void_round_is_told_of_by_name() -> None:
    told = SAID[True, "void"]
    fields = {"round": 2, "attempt": 0, "why": "the test loss of the model after it is inf", "participants": ["a", "b"]}
    wanted = "round 3 is void: the test loss of the model after it is inf; the model before it stays; updates of a, b "
    assert told(fields) == wanted + "were in it"
    assert told({"round": 2, "attempt": 0, "updates": 1}) == "round 3 is given up: 1 updates; it begins again"
    void = {"time": 0.0, "round": 2, "why": fields["why"], "names": ("a", "b")}
    found = {"run": "r", "round": 3, "state": "no server is there", "participants": [], "history": [], "refused": [],
             "void": [void], "voids": 1, "aborted": 0}  # fmt: skip
    line, _, table = shown(found)
    assert line == "run r: 3 rounds done, no server is there, 1 void, 0 given up"
    assert [next(iter(column.cells)) for column in table.columns][1:3] == ["3", "a, b"]
