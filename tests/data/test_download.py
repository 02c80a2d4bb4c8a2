import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fedloom.data.download import MIRRORS, Remote, get, md5, missing
from fedloom.errors import ArgumentError, DataError

BODY = bytes(range(256)) * 5000  # more than one chunk
MD5 = hashlib.md5(BODY).hexdigest()


class Server(ThreadingHTTPServer):
    asked: list[str]

    def remote(self, name: str, md5: str = MD5) -> Remote:
        return Remote(f"http://127.0.0.1:{self.server_port}/{name}", f"toy/{name}", md5)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.path == "/none":
            self.send_error(404)
            return
        self.send_response(200)
        if self.path != "/unknown-length":
            self.send_header("Content-Length", str(len(BODY) + (1000 if self.path == "/short" else 0)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server(("127.0.0.1", 0), Handler) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def fetch(monkeypatch: pytest.MonkeyPatch, folder: Path, *remotes: Remote) -> tuple[Path, ...]:
    monkeypatch.setitem(MIRRORS, "toy", remotes)
    return get("toy", folder)


@pytest.mark.parametrize("name", ["good", "unknown-length"])
def test_files_come_whole(monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path, name: str) -> None:
    (path,) = fetch(monkeypatch, tmp_path / "new", server.remote(name))
    assert path == tmp_path / "new" / "toy" / name
    assert path.read_bytes() == BODY
    assert list(path.parent.iterdir()) == [path]


def test_only_what_is_missing_or_wrong_is_fetched(
    monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path
) -> None:
    remotes = [server.remote("good"), server.remote("better")]
    fetch(monkeypatch, tmp_path, *remotes)
    assert server.asked == ["/good", "/better"]
    fetch(monkeypatch, tmp_path, *remotes)
    assert server.asked == ["/good", "/better"]
    (tmp_path / "toy" / "good").write_bytes(b"something else")
    fetch(monkeypatch, tmp_path, *remotes)
    assert server.asked == ["/good", "/better", "/good"]
    assert (tmp_path / "toy" / "good").read_bytes() == BODY


def test_the_data_folder_is_the_place(monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path) -> None:
    monkeypatch.setenv("FEDLOOM_DATA", str(tmp_path))
    monkeypatch.setitem(MIRRORS, "toy", (server.remote("good"),))
    assert get("toy") == (tmp_path / "toy" / "good",)


@pytest.mark.parametrize(
    ("name", "checksum", "message"),
    [
        ("short", MD5, r"/short ended after 1,280,000 of 1,281,000 bytes: not kept"),
        ("good", "0" * 32, f"/good must have the MD5 {'0' * 32}, but what came has {MD5}"),
        ("none", MD5, r"/none cannot be fetched to .*toy/none \(HTTP Error 404: Not Found\)"),
    ],
)
def test_nothing_bad_is_kept(
    monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path, name: str, checksum: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        fetch(monkeypatch, tmp_path, server.remote(name, checksum))
    assert list((tmp_path / "toy").iterdir()) == []


def test_a_file_that_was_there_stays_after_a_failure(
    monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "short").write_bytes(b"mine")
    with pytest.raises(DataError, match="ended after"):
        fetch(monkeypatch, tmp_path, server.remote("short"))
    assert [path.read_bytes() for path in (tmp_path / "toy").iterdir()] == [b"mine"]


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path) -> None:
    with Server(("127.0.0.1", 0), Handler) as gone:
        remote = gone.remote("good")
    with pytest.raises(DataError, match=r"cannot be fetched to .*Connection refused"):
        fetch(monkeypatch, tmp_path, remote)
    assert server.asked == []


def test_a_folder_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path) -> None:
    (tmp_path / "toy").touch()
    with pytest.raises(DataError, match=r"toy/good cannot be written"):
        fetch(monkeypatch, tmp_path, server.remote("good"))


def test_checksums_are_of_the_bytes_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"abc")
    assert md5(tmp_path / "a.gz") == "900150983cd24fb0d6963f7d28e17f72"  # RFC 1321, appendix A.5


def test_mirrors_are_complete() -> None:
    for name, remotes in MIRRORS.items():
        assert all(remote.file == f"{name}/{remote.url.rsplit('/', 1)[-1]}" for remote in remotes)
        assert all(len(bytes.fromhex(remote.md5)) == 16 for remote in remotes)


def test_unknown_names_list_the_known() -> None:
    with pytest.raises(ArgumentError, match="one of cifar10, fashion-mnist, mnist-writers, but is 'cifar'"):
        get("cifar")


def test_advice_for_what_no_mirror_has() -> None:
    error = missing("emnist", ["a", "b"], [Path("/data/emnist")], "https://example.org")
    assert str(error).startswith("emnist is missing (no a or b in /data/emnist): get it from https://example.org, or ")
