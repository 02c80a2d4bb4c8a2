"""The page is read over real TLS, by certificates made on the fly, and in a real browser where there is one."""

import asyncio
import base64
import contextlib
import functools
import hashlib
import http.client
import importlib
import json
import re
import shutil
import socket
import ssl
import sys
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fedloom.errors import ArgumentError, FedloomError, MissingExtra
from fedloom.federation import page as module
from fedloom.federation.authority import init, issue
from fedloom.federation.page import Page, start_page

MISSING = (
    "A browser is missing, nobody looks at the page: install chromium and, beside fedloom, playwright "
    "(pip install playwright; playwright install chromium brings both)"
)
pytestmark = pytest.mark.filterwarnings("default:A browser is missing")  # told after every run, not only with -rs
EVIL = "<img src=x onerror=alert(1)>"
STARTED = 1763251200.0


def example(**changed: Any) -> dict[str, Any]:
    """A run after two of its rounds."""
    people = [
        {"name": "clinic-a", "number": 0, "state": "working", "examples": 600, "counted": 2, "late": 0, "refused": 0},
        {"name": EVIL, "number": 1, "state": "replied", "examples": 1400, "counted": 1, "late": 1, "refused": 1},
    ]
    rows = [
        {"round": 1, "seconds": 3.1, "steps": 90, "bytes_up": 2400000, "bytes_down": 4800000, "replies": 2, "asked": 2,
         "attempt": 0, "update_norm": 0.4, "test_accuracy": 0.91, "test_loss": 0.31},
        {"round": 2, "seconds": 5.6, "steps": 180, "bytes_up": 4800000, "bytes_down": 9600000, "replies": 2, "asked": 2,
         "attempt": 0, "update_norm": 0.3, "test_accuracy": 0.935, "test_loss": float("nan"), "clients_accuracy": 0.92},
    ]  # fmt: skip
    status = {
        "run": "9f2c", "label": "2nn on mnist, fedavg", "state": "training", "why": "", "round": 2, "attempt": 1,
        "rounds": 200, "goal": 2, "quorum": 1, "started": STARTED, "now": STARTED + 75,
        "participants": [{**person, "seen": STARTED + 70} for person in people], "history": rows,
        "refused": [{"time": STARTED + 9, "round": 1, "name": EVIL, "reason": "hidden1.w is <b>not</b> finite"}],
        "aborted": 1, "bytes_up": 4800000, "bytes_down": 9600000,
    }  # fmt: skip
    return status | changed


@contextlib.contextmanager
def served(
    status: Callable[[], Mapping[str, Any]],
    tls: ssl.SSLContext | None = None,
    admit: Callable[[bytes | None], bool] = lambda _: True,
) -> Iterator[int]:
    """A page in a thread of its own; gives its port."""
    started: list[Page] = []
    ready, loop, stop = threading.Event(), asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        try:
            started.append(await start_page(status, "127.0.0.1:0", tls=tls, admit=admit))
        finally:
            ready.set()
        await stop.wait()
        await started[0].close()
        await started[0].close()  # a second time does nothing

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait()
    try:
        yield started[0].port
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def ask(
    port: int,
    path: str,
    *,
    tls: ssl.SSLContext | None = None,
    method: str = "GET",
    headers: dict[str, str] | None = None,
) -> tuple[int, dict[str, str], str]:
    """Status, headers (lower case) and text of an answer."""
    kind = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=tls) if tls else None
    connection = kind or http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(connection):
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = init(tmp_path_factory.mktemp("home") / "keys", "Hospitals of the north")
    issue(made, "server", role="server", hosts=["127.0.0.1"])
    issue(made, "operator", role="viewer")
    issue(made, "clinic")
    return made


def server_side(authority: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority / "ca.pem")
    context.load_cert_chain(authority / "server" / "cert.pem", authority / "server" / "key.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_side(authority: Path, name: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority / "ca.pem")
    if name:
        context.load_cert_chain(authority / name / "cert.pem", authority / name / "key.pem")
    return context


@pytest.fixture
def port(authority: Path) -> Iterator[int]:
    """A page that lets only the operator in."""
    operator = ssl.PEM_cert_to_DER_cert((authority / "operator" / "cert.pem").read_text())
    with served(example, server_side(authority), lambda shown: shown == operator) as port:
        yield port


def test_the_page_runs_only_what_is_written_in_it(authority: Path, port: int) -> None:
    code, headers, text = ask(port, "/", tls=client_side(authority, "operator"))
    assert (code, headers["content-type"]) == (200, "text/html; charset=utf-8")
    allowed = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert allowed["default-src"] == allowed["frame-ancestors"] == allowed["form-action"] == "'none'"
    assert allowed["connect-src"] == "'self'"
    for tag, name in (("script", "script-src"), ("style", "style-src")):
        (inside,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert allowed[name] == f"'sha256-{base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()}'"
    assert not re.search(r"(src|href)=.?(https?:|//)", text)  # nothing comes from elsewhere
    assert not re.search("innerHTML|outerHTML|insertAdjacentHTML|document.write", text)


@pytest.mark.parametrize(
    ("path", "method", "code"),
    [("/", "GET", 200), ("/status", "GET", 200), ("/metrics", "GET", 200), ("/status?after=x", "GET", 400),
     ("/other", "GET", 404), ("/../pyproject.toml", "GET", 404), ("/", "POST", 405), ("/status", "DELETE", 405),
     ("/", "HEAD", 405)],
)  # fmt: skip
def test_every_answer_is_closed_up(authority: Path, port: int, path: str, method: str, code: int) -> None:
    answered, headers, _ = ask(port, path, method=method, tls=client_side(authority, "operator"))
    assert answered == code
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["server"] == "fedloom"  # and no version
    assert headers["content-security-policy"].startswith("default-src 'none'; ")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


def test_the_status_is_json_that_every_reader_takes(authority: Path, port: int) -> None:
    def strict(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    code, headers, text = ask(port, "/status", tls=client_side(authority, "operator"))
    assert (code, headers["content-type"]) == (200, "application/json; charset=utf-8")
    found = json.loads(text, parse_constant=strict)
    rows = example()["history"]
    assert found["history"] == [rows[0], rows[1] | {"test_loss": None}]
    assert {k: v for k, v in found.items() if k != "history"} == {k: v for k, v in example().items() if k != "history"}
    later = json.loads(ask(port, "/status?after=1", tls=client_side(authority, "operator"))[2])
    assert [row["round"] for row in later["history"]] == [2]


def test_the_metrics_are_what_prometheus_reads(authority: Path, port: int) -> None:
    code, headers, text = ask(port, "/metrics", tls=client_side(authority, "operator"))
    assert (code, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found.pop(("fedloom_metric", "test_loss")) != 0.31  # the last one, which was not a number
    assert found == {
        ("fedloom_up",): 1, ("fedloom_round",): 2, ("fedloom_rounds_aborted_total",): 1,
            ("fedloom_rounds_void_total",): 0,
        ("fedloom_participants", "working"): 1, ("fedloom_participants", "replied"): 1,
        ("fedloom_participants", "idle"): 0, ("fedloom_participants", "gone"): 0,
        ("fedloom_participants", "quarantined"): 0, ("fedloom_bytes_total", "up"): 4800000,
        ("fedloom_bytes_total", "down"): 9600000, ("fedloom_updates_total", "counted"): 3,
        ("fedloom_updates_total", "late"): 1, ("fedloom_updates_total", "refused"): 1,
        ("fedloom_metric", "test_accuracy"): 0.935, ("fedloom_metric", "clients_accuracy"): 0.92,
        ("fedloom_metric", "update_norm"): 0.3, ("fedloom_round_seconds",): pytest.approx(2.5),
    }  # fmt: skip
    assert "clinic-a" not in text


def test_a_run_that_has_not_begun_has_metrics_too() -> None:
    with served(lambda: example(participants=[], history=[], refused=[])) as port:
        text = ask(port, "/metrics")[2]
    assert "fedloom_up 1.0" in text
    assert "fedloom_round_seconds" not in text


def test_whoever_is_not_admitted_reads_one_sentence(authority: Path, port: int) -> None:
    for path in ("/", "/status", "/metrics", "/other"):
        code, headers, text = ask(port, path, tls=client_side(authority, "clinic"))
        assert (code, text.count("."), headers["connection"]) == (403, 1, "close")
    with pytest.raises(OSError):  # no certificate at all: not even that
        ask(port, "/", tls=client_side(authority, None))
    assert ask(port, "/", tls=client_side(authority, "operator"))[0] == 200


def test_admit_is_asked_at_each_request_and_without_tls_too() -> None:
    shown: list[bytes | None] = []
    with served(example, admit=lambda certificate: bool(shown.append(certificate)) or len(shown) < 2) as port:
        assert [ask(port, "/status")[0] for _ in range(3)] == [200, 403, 403]
    assert shown == [None, None, None]


@pytest.mark.filterwarnings("default")
def test_a_status_that_fails_tells_nobody_why() -> None:
    def fails() -> dict[str, Any]:
        raise RuntimeError("a secret")

    with served(fails) as port:
        code, _, text = ask(port, "/status")
        assert code == 500
        assert "secret" not in text
        assert ask(port, "/")[0] == 200


def test_headers_have_a_limit() -> None:
    with served(example) as port:
        assert ask(port, "/", headers={"X-Long": "x" * 20000})[0] == 400
        assert ask(port, "/", headers={f"X-{i}": "x" for i in range(200)})[0] == 400
        assert ask(port, "/status?" + "x" * 5000)[0] == 400


def test_those_who_dawdle_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTIONS", 2)
    monkeypatch.setattr(module, "PATIENCE", 0.6)
    with served(example) as port, contextlib.ExitStack() as held:
        for sent in (b"", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "):
            held.enter_context(socket.create_connection(("127.0.0.1", port))).sendall(sent)
        began = time.monotonic()
        assert ask(port, "/status")[0] == 200  # the third waits until one of the two is sent away
        assert 0.3 < time.monotonic() - began < 5


def test_who_does_not_read_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTIONS", 1)
    monkeypatch.setattr(module, "PATIENCE", 0.6)
    with served(lambda: example(label="x" * 30_000_000)) as port, socket.socket() as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.connect(("127.0.0.1", port))
        lazy.sendall(b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n")
        assert ask(port, "/")[0] == 200


def test_a_handshake_that_never_comes_makes_room(authority: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTIONS", 1)
    monkeypatch.setattr(module, "HANDSHAKE", 0.4)
    with served(example, server_side(authority)) as port:
        for sent in (b"", b"GET / HTTP/1.1\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", port)) as silent:
                silent.sendall(sent)
                assert ask(port, "/status", tls=client_side(authority, "clinic"))[0] == 200


@pytest.mark.parametrize("address", ["8080", "127.0.0.1", ":8080", "127.0.0.1:http", "127.0.0.1:70000"])
def test_an_address_is_a_host_and_a_port(address: str) -> None:
    with pytest.raises(ArgumentError, match=r"address must be a host and a port, such as 127.0.0.1:8080"):
        asyncio.run(start_page(example, address, tls=None, admit=lambda _: True))


def test_an_address_that_is_taken_is_named() -> None:
    with served(example) as port, pytest.raises(FedloomError, match=f"cannot be served at 127.0.0.1:{port}"):
        asyncio.run(start_page(example, f"127.0.0.1:{port}", tls=None, admit=lambda _: True))


@pytest.mark.parametrize("library", ["aiohttp", "prometheus_client"])
def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, "fedloom.federation.page")
    with pytest.raises(MissingExtra, match=rf"this needs {library}: pip install 'fedloom\[federation\]'"):
        importlib.import_module("fedloom.federation.page")


def test_a_library_that_is_too_old_is_not_called_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import prometheus_client.exposition

    monkeypatch.delattr(prometheus_client.exposition, "CONTENT_TYPE_PLAIN_0_0_4")
    monkeypatch.delitem(sys.modules, "fedloom.federation.page")
    with pytest.raises(ImportError, match="cannot import name 'CONTENT_TYPE_PLAIN_0_0_4'") as raised:
        importlib.import_module("fedloom.federation.page")
    assert not isinstance(raised.value, MissingExtra)


def browsing(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that waits for a browser."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


def without_a_browser() -> None:
    warnings.warn(MISSING, stacklevel=2)
    pytest.skip(MISSING)


@contextlib.asynccontextmanager
async def opened(authority: Path, port: int, wrong: list[str] | None = None, **look: Any) -> AsyncIterator[Any]:
    """The page as the operator sees it; in the end nothing has gone wrong and nobody else was asked."""
    try:
        from playwright.async_api import async_playwright
    except ImportError:
        without_a_browser()
    wrong, origin, here = [] if wrong is None else wrong, f"https://127.0.0.1:{port}", authority / "operator"
    async with async_playwright() as playwright:
        own = playwright.chromium.executable_path
        found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), own)
        if not Path(found).exists():
            without_a_browser()
        browser = await playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        shown = [{"origin": origin, "certPath": here / "cert.pem", "keyPath": here / "key.pem"}]
        context = await browser.new_context(client_certificates=shown, ignore_https_errors=True, **look)
        tab = await context.new_page()
        tab.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("dialog", lambda dialog: wrong.append(dialog.message))
        tab.on("request", lambda r: None if r.url.startswith((origin, "data:")) else wrong.append(r.url))
        await tab.goto(origin)
        await tab.wait_for_selector("#people tbody tr")
        yield tab
        await browser.close()
    assert wrong == []


async def texts(tab: Any, selector: str) -> list[str]:
    return [text.strip() for text in await tab.locator(selector).all_inner_texts()]


@browsing
async def test_a_browser_shows_the_run(authority: Path, port: int) -> None:
    async with opened(authority, port) as tab:
        assert await texts(tab, "h1, #stateword") == ["2nn on mnist, fedavg", "training"]
        facts = dict(zip(await texts(tab, "#facts dt"), await texts(tab, "#facts .value"), strict=True))
        assert facts == {
            "Round": "3 of 200", "Running for": "1 min 15 s", "Participants": "2", "Replies": "1 of 2",
            "Accuracy": "0.9350", "Sent up": "4.8 MB", "Sent down": "9.6 MB", "Aborted rounds": "1",
        }  # fmt: skip
        assert (await texts(tab, "#facts .more"))[0] == "attempt 2"
        assert [row.split() for row in await texts(tab, "#people tbody tr")] == [
            ["clinic-a", "working", "600", "2", "0", "0", "5", "s", "ago"],
            [*EVIL.split(), "replied", "1,400", "1", "1", "1", "5", "s", "ago"],
        ]
        assert (await texts(tab, "#refusals tbody td"))[1:] == ["1", EVIL, "hidden1.w is <b>not</b> finite"]
        assert await tab.locator("img, tbody b").count() == 0  # what strangers sent stays text
        assert [one.split("\n") for one in await texts(tab, ".legend li")] == [
            ["test", "0.9350"], ["clients", "0.9200"], ["test", "0.31"], ["seconds", "2.5 s"],
            ["up, from participants", "2.4 MB"], ["down, to participants", "4.8 MB"],
        ]  # fmt: skip
        curves = tab.locator(".plot").first.locator("path.curve")
        assert await curves.count() == 4  # two metrics, as measured and best so far
        assert (await curves.first.get_attribute("d")).count("L") == 1  # from round 1 to round 2


@browsing
async def test_the_read_out_follows_the_pointer_and_the_arrows(authority: Path, port: int) -> None:
    async with opened(authority, port) as tab:
        plot = tab.locator(".plot").first
        box = await plot.bounding_box()
        await tab.mouse.move(box["x"] + 60, box["y"] + 80)
        assert await texts(tab, ".at") == ["round 1"] * 4
        assert await texts(tab, ".legend b") == ["0.9100", "–", "0.31", "3.1 s", "2.4 MB", "4.8 MB"]
        await tab.mouse.move(2, 2)
        assert (await texts(tab, ".at"))[0] == "round 2"
        await plot.focus()
        await tab.keyboard.press("ArrowLeft")
        assert "in round 1: test 0.9100" in await plot.get_attribute("aria-label")


@browsing
async def test_the_page_follows_the_run_and_says_when_it_cannot(authority: Path) -> None:
    now, wrong, welcome = example(), list[str](), True
    serving = contextlib.ExitStack()
    with serving:
        port = serving.enter_context(served(lambda: now, server_side(authority), lambda _: welcome))
        async with opened(authority, port, wrong) as tab:
            newest = tab.locator(".legend b").first
            row = now["history"][0] | {"round": 3, "test_accuracy": 0.951}
            now = example(round=3, history=[*now["history"], row], participants=now["participants"][:1])
            await newest.filter(has_text="0.9510").wait_for(timeout=8000)
            assert (await texts(tab, "#facts .value"))[0] == "4 of 200"
            assert await tab.locator("#people tbody tr").count() == 1
            now = example(run="another", history=now["history"][:1], round=1, label="another run")
            await newest.filter(has_text="0.9100").wait_for(timeout=8000)
            assert await tab.locator("#lost").is_hidden()
            welcome = False
            await tab.locator("#lost", has_text="it answers 403: This page is for those").wait_for(timeout=8000)
            welcome = True
            await tab.wait_for_selector("#lost", state="hidden", timeout=8000)
            serving.close()  # the server goes
            await tab.wait_for_selector("#lost:not([hidden])", timeout=15000)
            said = await tab.locator("#lost").inner_text()
            assert re.match(r"Server not reached since \d\d:\d\d:\d\d", said)
            assert await texts(tab, "h1") == ["another run"]  # the last picture stays
            assert all("Failed to load resource" in line for line in wrong)  # the browser's own words for it
            wrong.clear()


@browsing
async def test_a_thousand_participants_and_two_thousand_rounds_are_quick(authority: Path) -> None:
    one, rows = example()["participants"][0], example()["history"]
    crowd = [one | {"name": f"clinic-{i}", "number": i, "state": ("idle", "gone")[i % 2]} for i in range(1000)]
    history = [
        rows[0] | {"round": r, "seconds": 3.0 * r, "test_accuracy": 0.5 + r / 5000 + r % 7 / 100}
        for r in range(1, 2001)
    ]
    drawing = "() => { const t = performance.now(); drawCharts(); showPeople(); return performance.now() - t; }"
    points = "() => [...document.querySelectorAll('.plot path')].map((p) => p.getAttribute('d').split('L').length)"
    with served(lambda: example(participants=crowd, history=history, round=2000), server_side(authority)) as port:
        async with opened(authority, port, viewport={"width": 390, "height": 844}) as tab:
            assert await tab.locator("#people tbody tr").count() == 25
            assert await tab.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
            assert 100 < max(await tab.evaluate(points)) < 4 * 390  # what is drawn depends on the width alone
            assert await tab.evaluate(drawing) < 500
            await tab.get_by_role("button", name="gone 500").click()
            await tab.get_by_role("searchbox").fill("clinic-99")
            assert await texts(tab, "#people td.name") == ["clinic-99", *(f"clinic-{i}" for i in range(991, 1000, 2))]
