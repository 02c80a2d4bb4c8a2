"""Attack a real server, with certificates and without, while honest participants train: what becomes of each attack, of
the server's memory, and of the model.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import json
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import grpc
import grpc.aio
import numpy as np
import typer
from safetensors.numpy import load, save
from timing import keep

from fedloom.federation.authority import init, issue, revoke
from fedloom.federation.disk import digest
from fedloom.federation.keys import Keys
from fedloom.federation.wire import CHUNK, LARGEST, PROTOCOL
from fedloom.federation.wire_pb2 import Beat, Chunk, Place, Update, Verdict, Want

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))  # before benchmarks/weather.py
from intruder import Intruder, order

HONEST = ("a", "b", "c")
METHODS = ("Attend", "Fetch", "Held", "Push", "Submit")
EXPERIMENT = ["--model", "2nn", "--fraction", "1", "--batch-size", "100", "--target", "none"]
RULES = ["--begin", "3", "--quorum", "0.01", "--wait-seconds", "0.3", "--round-seconds", "40", "--most-norm", "100"]
DATA = ["--data", "mnist", "--partition", "lognormal", "--clients", "3"]  # of different sizes: added up in one order
NOBODY = "0" * 64


def free() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Federation:
    """A server and three honest participants, each a process of its own."""

    def __init__(self, folder: Path, rounds: int) -> None:
        self.folder, self.rounds, self.port, self.page = folder, rounds, free(), free()
        self.keys = init(folder / "keys", "hostile", now=datetime.now(UTC) - timedelta(days=9))
        issue(self.keys, "server", role="server", hosts=("localhost", "127.0.0.1"))
        issue(self.keys, "viewer", role="viewer")
        issue(self.keys, "expired", days=1, now=datetime.now(UTC) - timedelta(days=3))
        for name in HONEST:
            issue(self.keys, name)
        self.others = init(folder / "others", "another")
        issue(self.others, "a")
        self.processes: list[subprocess.Popen[bytes]] = []
        self.last = 0.0
        atexit.register(self.stop)

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """One of its processes."""
        with (self.folder / f"{name}.txt").open("wb") as said:
            command = [sys.executable, "-m", "fedloom", *arguments]
            self.processes.append(subprocess.Popen(command, stdout=said, stderr=said, cwd=self.folder))
        return self.processes[-1]

    def begin(self) -> None:
        """The server, then one participant after another: their numbers are those of their coming."""
        self.server = self.start(
            "server", "server", "--keys", "keys/server", "--listen", f"127.0.0.1:{self.port}", "--page",
            f"127.0.0.1:{self.page}", "--rounds", str(self.rounds), *EXPERIMENT, *RULES, "--out", "served",
        )  # fmt: skip
        for i, name in enumerate(HONEST):
            self.start(name, "client", "--server", f"localhost:{self.port}", "--keys", f"keys/{name}", *DATA,
                       "--part", str(i), "--out", "joined")  # fmt: skip
            while not any(line.get("name") == name for line in self.log("came")):
                gone = [process.poll() for process in self.processes]
                assert not any(end is not None for end in gone), [x.read_text() for x in self.folder.glob("*.txt")]
                time.sleep(0.1)

    def log(self, event: str | None = None) -> list[dict[str, Any]]:
        """What the server has logged, all of it or one kind."""
        file = self.folder / "served" / "log.jsonl"
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [line for line in lines if event in (None, line["event"])]

    def stop(self) -> None:
        """Leave no process behind."""
        for process in self.processes:
            process.kill()

    def end(self) -> tuple[str, list[int]]:
        """The digest of the final model, when everybody has come to the end; and how all processes ended."""
        while self.server.poll() is None:
            self.last = self.rss() or self.last
            time.sleep(0.2)
        for process in self.processes:
            process.wait(900)
        model = (self.folder / "served" / "model.safetensors").read_bytes()
        return hashlib.sha256(model).hexdigest(), [process.returncode for process in self.processes]

    def rss(self) -> float:
        """The server's memory, in MB."""
        try:
            text = Path(f"/proc/{self.server.pid}/status").read_text()
            return round(int(text.partition("VmRSS:")[2].split()[0]) / 1024, 1)
        except (FileNotFoundError, IndexError):
            return 0.0

    def as_keys(self, name: str, folder: Path | None = None) -> Keys:
        """Somebody's keys, valid or not."""
        place = (folder or self.keys) / name
        return Keys(*((place / file).read_bytes() for file in ("key.pem", "cert.pem", "ca.pem")))

    def fresh(self, name: str) -> Intruder:
        """Somebody with a certificate of its own."""
        if not (self.keys / name).exists():
            issue(self.keys, name)
        return Intruder(self.port, self.as_keys(name))


async def code(call: Coroutine[Any, Any, Any]) -> str:
    """How a call ends, in words."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return f"{error.code().name}: {(error.details() or '')[:90]}"
    except TimeoutError:
        return "no answer"
    return "answered"


async def tried(keys: Keys, f: Federation) -> str:
    async with Intruder(f.port, keys) as one:
        return await code(one.call("Held", Want(file=NOBODY).SerializeToString(), patience=8))


async def no_certificate(f: Federation) -> str:
    bare = grpc.aio.secure_channel(f"localhost:{f.port}", grpc.ssl_channel_credentials(f.as_keys("a").ca))
    try:
        return await code(bare.unary_unary("/fedloom.federation.Federation/Held")(b"", timeout=8))
    finally:
        await bare.close()


async def expired(f: Federation) -> str:
    return await tried(f.as_keys("expired"), f)


async def another_authority(f: Federation) -> str:
    theirs = f.as_keys("a", f.others)
    return await tried(Keys(theirs.key, theirs.cert, f.as_keys("a").ca), f)


async def a_viewers(f: Federation) -> str:
    return await tried(f.as_keys("viewer"), f)


async def a_servers(f: Federation) -> str:
    return await tried(f.as_keys("server"), f)


async def revoked_before(f: Federation) -> str:
    one = f.fresh("revoked")
    await one.channel.close()
    revoke(f.keys, "revoked")
    return await tried(f.as_keys("revoked"), f)


async def revoked_while_there(f: Federation) -> str:
    async with f.fresh("leaver") as one:
        attending = await one.attend(ready=False)
        await order(attending, "welcome")
        revoke(f.keys, "leaver")
        began = time.monotonic()
        ended = await code(order(attending, "over", beat=2.0))
        return f"{ended}, after {time.monotonic() - began:.1f} s; again: {await code(one.held(NOBODY))}"


async def revoked_and_silent(f: Federation) -> str:
    async with f.fresh("sulker") as one:
        attending = await one.attend(ready=False)
        await order(attending, "welcome")
        revoke(f.keys, "sulker")
        began = time.monotonic()
        ended = await code(order(attending, "refusal", beat=99.0))
        return f"refused ({ended}), after {time.monotonic() - began:.1f} s"


async def noise(f: Federation) -> str:
    ends = Counter[str]()
    for content in (
        b"GET / HTTP/1.1\r\n\r\n",
        bytes(2**20),
        b"\x16\x03\x01" + b"\xff" * 2000,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", f.port)
        try:
            writer.write(content)
            async with asyncio.timeout(15):
                while await reader.read(4096):
                    pass
            ends["closed"] += 1
        except ConnectionError:
            ends["closed"] += 1
        except TimeoutError:
            ends["still open"] += 1
        writer.close()
    return f"{dict(ends)}"


async def each(f: Federation, name: str, contents: dict[str, bytes]) -> str:
    async with f.fresh(name) as one:
        await order(await one.attend(ready=False), "welcome")
        found = {method: await code(one.call(method, content)) for method, content in contents.items()}
    return "; ".join(f"{method} {told.partition(':')[0]}" for method, told in found.items())


async def oversize_message(f: Federation) -> str:
    return await each(f, "large", dict.fromkeys(METHODS, bytes(LARGEST + 1)))


async def folded_message(f: Federation) -> str:
    """A quarter of a gigabyte of zeros takes a quarter of a megabyte on the way."""
    f.fresh("folder")
    async with Intruder(f.port, f.as_keys("folder"), compression=grpc.Compression.Gzip) as one:
        await order(await one.attend(ready=False), "welcome")
        huge = Chunk(file=NOBODY, size=1, content=bytes(2**28)).SerializeToString()
        return await code(one.call("Push", huge, patience=60))


async def malformed(f: Federation) -> str:
    return await each(f, "garbled", dict.fromkeys(METHODS, b"\xff\xff\xff"))


async def path_characters(f: Federation) -> str:
    path = "../../../../tmp/x"
    sent = {"Fetch": Want(file=path), "Held": Want(file=path), "Push": Chunk(file=path, size=1, content=b"x"),
            "Submit": Update(file=path, examples=1)}  # fmt: skip
    return await each(f, "walker", {method: message.SerializeToString() for method, message in sent.items()})


async def unreadable_numbers(f: Federation) -> str:
    one = {"readings NaN": {"readings": {"x": np.nan}}, "too many": {"readings": {str(i): 0.0 for i in range(65)}}}
    found = []
    async with f.fresh("counter") as somebody:
        for what, said in one.items():
            content = Update(file=NOBODY, **said).SerializeToString()
            found.append(f"{what} {(await code(somebody.call('Submit', content))).partition(':')[0]}")
    return "; ".join(found)


async def unknown_method(f: Federation) -> str:
    async with f.fresh("walker") as one:
        return await code(one.call("Rule", b""))


@asynccontextmanager
async def working(f: Federation, name: str) -> AsyncIterator[tuple[Intruder, Any, Any, dict[str, np.ndarray]]]:
    """Somebody who has been asked to work: itself, its attendance, its order, and an update of zeros."""
    async with f.fresh(name) as one:
        attending = await one.attend()
        welcome = await order(attending, "welcome")
        f.run = welcome.run
        work = await order(attending, "work")
        call = one.stream("Fetch")
        await call.write(Want(file=work.model).SerializeToString())
        await call.done_writing()
        content = b""
        while (part := await call.read()) is not grpc.aio.EOF:
            content += Chunk.FromString(part).content
        zeros = {name.replace("variables.", "update.", 1): np.zeros_like(a) for name, a in load(content).items()}
        yield one, attending, work, zeros


async def pushed(one: Intruder, content: bytes, file: str, size: int) -> int:
    """Push a file in chunks."""
    pieces = [content[i : i + CHUNK] for i in range(0, len(content), CHUNK)]
    chunks = [Chunk(content=piece) for piece in pieces]
    chunks[0].file, chunks[0].size = file, size
    return Place.FromString(await one.call("Push", *(chunk.SerializeToString() for chunk in chunks))).start


async def delivered(f: Federation, one: Intruder, work: Any, content: bytes, **said: Any) -> Verdict:
    with suppress(grpc.aio.AioRpcError):  # it may be refused already, in the middle of a piece
        await pushed(one, content, digest(content), len(content))
    return await one.submit(work, content, run=f.run, **said)


def worse(zeros: dict[str, np.ndarray]) -> dict[str, tuple[bytes, dict[str, Any]]]:
    """Updates that must not count."""
    name = min(zeros)
    good, first = save(zeros), zeros[name]

    def changed(array: np.ndarray) -> bytes:
        return save({**zeros, name: array})

    def filled(value: float) -> bytes:
        return changed(np.full_like(first, value))

    return {
        "NaN": (filled(np.nan), {}), "infinite": (filled(np.inf), {}), "numbers of 3e38": (filled(3e38), {}),
        "norm over the bound": (filled(10.0), {}), "wrong shape": (changed(first.reshape(-1)[:-1]), {}),
        "wrong type": (changed(first.astype(np.float16)), {}),
        "wrong name": (save({**{k: a for k, a in zeros.items() if k != name}, "x": first}), {}),
        "one name more": (save({**zeros, "x": np.zeros(1, np.float32)}), {}), "no file": (b"x" * 1000, {}),
        "0 examples": (good, {"examples": 0}), "2^64 - 1 examples": (good, {"examples": 2**64 - 1}),
        "a reading of 1e300": (good, {"readings": {"x": 1e300}}),
        "right on 9 of 2": (good, {"measures": {"accuracy": 9.0, "count": 2.0}}),
    }  # fmt: skip


async def bad_updates(f: Federation) -> dict[str, str]:
    """Three by each sender, who is then in quarantine."""
    found: dict[str, str] = {}
    cases: list[str] = []
    turn = 0
    while True:
        async with working(f, f"bad-{turn}") as (one, attending, work, zeros):
            every = worse(zeros)
            cases = cases or list(every)
            for i, case in enumerate(cases[3 * turn : 3 * turn + 3]):
                work = work if i == 0 else await order(attending, "work")
                content, said = every[case]
                verdict = await delivered(f, one, work, content, **said)
                found[case] = f"{Verdict.Outcome.Name(verdict.outcome)}: {verdict.why[:90]}"
            if 3 * turn + 3 > len(cases):
                return found
            told = await order(attending, "refusal")
            again = await order(await one.attend(), "refusal")
            fourth = await delivered(f, one, work, save(zeros))
            assert told.why == again.why == fourth.why
            found[f"quarantine {turn}"] = f"{Verdict.Outcome.Name(fourth.outcome)}: {fourth.why}"
        turn += 1


async def replayed(f: Federation) -> dict[str, str]:
    async with working(f, "replayer") as (one, attending, work, zeros):
        bad = save({**zeros, min(zeros): np.full_like(zeros[min(zeros)], np.nan)})
        first = await delivered(f, one, work, bad)
        later = await order(attending, "work")
        again = await one.submit(work, bad, run=f.run)
        while not (f.folder / "joined" / "a" / "pending.json").exists():
            await asyncio.sleep(0.01)
        pending = json.loads((f.folder / "joined" / "a" / "pending.json").read_text())
        held = await one.held(pending["file"])
        stolen = await one.submit(later, b"", run=f.run, file=pending["file"], size=pending["size"])
        name = Verdict.Outcome.Name
        return {"of an earlier round": f"{name(first.outcome)}, then {name(again.outcome)}",
                "somebody else's file": f"held {held}; {name(stolen.outcome)}: {stolen.why}"}  # fmt: skip


async def files(f: Federation) -> dict[str, str]:
    async with working(f, "pusher") as (one, _, work, zeros):
        content = save(zeros)
        declared = await code(pushed(one, content, digest(content), 2**40))
        actual = await code(pushed(one, content + bytes(2**21), digest(content), len(content)))
        at = await pushed(one, content[: CHUNK // 2], digest(content), len(content))
        verdict = await one.submit(work, content, run=f.run)
        return {"declared too large": declared, "larger than declared": actual,
                "truncated": f"at {at}; {Verdict.Outcome.Name(verdict.outcome)}: {verdict.why}"}  # fmt: skip


async def two_connections(f: Federation) -> str:
    async with f.fresh("twin") as one, f.fresh("twin") as two:
        first = await one.attend(ready=False)
        await order(first, "welcome")
        second = await two.attend(ready=False)
        await order(second, "welcome")
        return f"the older: {(await order(first, 'refusal')).why}"


async def slow_push(f: Federation) -> str:
    """A byte a second, for as long as it may: at the end of its round the server answers, and ends it."""
    async with working(f, "snail") as (one, attending, _, zeros):
        content = save(zeros)
        call, began = one.stream("Push"), time.monotonic()
        await call.write(Chunk(file=digest(content), size=len(content), content=content[:1]).SerializeToString())
        answer, at = asyncio.create_task(call.read()), 1
        while not answer.done() and time.monotonic() < began + 120:
            await attending.write(Beat(protocol=PROTOCOL, ready=False).SerializeToString())
            with suppress(asyncio.InvalidStateError, grpc.aio.AioRpcError):
                await call.write(Chunk(content=content[at : at + 1]).SerializeToString())
            at += 1
            await asyncio.wait([answer], timeout=1)
        told = "nobody waits for it" if answer.done() and isinstance(answer.result(), bytes) else "something else"
        call.cancel()
        return f"answered after {time.monotonic() - began:.0f} s and {at} bytes: {told}"


async def newcomer(f: Federation) -> str:
    """How long somebody honest takes to get in."""
    began = time.monotonic()
    async with f.fresh("newcomer") as one:
        await order(await one.attend(ready=False), "welcome")
    return f"a newcomer gets in after {time.monotonic() - began:.2f} s"


async def half_open(f: Federation, hello: bytes) -> str:
    peers = []
    for _ in range(1000):
        reader, writer = await asyncio.open_connection("127.0.0.1", f.port)
        writer.write(hello)
        peers.append((reader, writer))
    told, began, still = await newcomer(f), time.monotonic(), 1000

    async def ended(reader: asyncio.StreamReader) -> None:
        try:
            while await reader.read(4096):
                pass
        except ConnectionError:
            pass

    waits = [asyncio.create_task(ended(reader)) for reader, _ in peers]
    done, left = await asyncio.wait(waits, timeout=25)
    still = len(left)
    for task in left:
        task.cancel()
    for _, writer in peers:
        writer.close()
    return f"{told}; {len(done)} of 1000 ended by the server within {time.monotonic() - began:.0f} s, {still} not"


async def half_open_tcp(f: Federation) -> str:
    return await half_open(f, b"")


async def half_open_tls(f: Federation) -> str:
    context, out = ssl.create_default_context(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost").do_handshake()
    return await half_open(f, out.read())


async def silent_streams(f: Federation) -> str:
    """1,024 calls of one certificate over 64 connections that never say anything."""
    crowd = [f.fresh("crowd") for _ in range(64)]
    calls = [one.stream(METHODS[1 + i % 4]) for one in crowd for i in range(16)]
    codes = asyncio.gather(*(call.code() for call in calls))
    await asyncio.sleep(3)
    told = await newcomer(f)
    async with asyncio.timeout(60):
        ends = Counter(found.name for found in await codes)
    for one in crowd:
        await one.channel.close()
    return f"{told}; {dict(ends)}"


async def flood(f: Federation) -> str:
    """One certificate, eight connections, as many calls as they can make for ten seconds."""
    crowd, ends, end = [f.fresh("flood") for _ in range(8)], Counter[str](), time.monotonic() + 10

    async def ask(one: Intruder) -> None:
        while time.monotonic() < end:
            ends[(await code(one.held(NOBODY))).partition(":")[0]] += 1

    asking = asyncio.gather(*(ask(one) for one in crowd for _ in range(16)))
    await asyncio.sleep(5)
    told = await newcomer(f)
    await asking
    for one in crowd:
        await one.channel.close()
    return f"{told}; {dict(ends)}"


async def beats(f: Federation) -> str:
    async with f.fresh("drummer") as one:
        call, sent, end = await one.attend(ready=False), 0, time.monotonic() + 5
        beat = Beat(protocol=PROTOCOL, version="x" * 200).SerializeToString()
        while time.monotonic() < end:
            try:
                async with asyncio.timeout(max(0.01, end - time.monotonic())):
                    await call.write(beat)
                sent += 1
            except TimeoutError:
                break
        return f"{sent:,} were written in 5 s; {await newcomer(f)}"


async def coming_and_going(f: Federation) -> str:
    size = (f.folder / "served" / "log.jsonl").stat().st_size
    async with f.fresh("moth") as one:
        for _ in range(300):
            call = await one.attend(ready=False)
            await order(call, "welcome")
            call.cancel()
    grown = (f.folder / "served" / "log.jsonl").stat().st_size - size
    return f"300 times; the log grew by {grown:,} bytes"


async def unread_files(f: Federation) -> str:
    """Sixteen fetches whose content nobody takes."""
    async with f.fresh("glutton") as one:
        model = (await order(await one.attend(), "work")).model
        calls = [one.stream("Fetch") for _ in range(15)]
        for call in calls:
            await call.write(Want(file=model).SerializeToString())
        await asyncio.sleep(5)
        return await newcomer(f)


async def the_page(f: Federation) -> str:
    def ask(name: str | None, folder: Path | None = None) -> str:
        context = ssl.create_default_context(cafile=str(f.keys / "ca.pem"))
        if name:
            context.load_cert_chain((folder or f.keys) / name / "cert.pem", (folder or f.keys) / name / "key.pem")
        try:
            with (
                socket.create_connection(("127.0.0.1", f.page), 5) as raw,
                context.wrap_socket(raw, server_hostname="localhost") as tls,
            ):
                tls.sendall(b"GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                return tls.recv(4096).split(b"\r\n")[0].decode() or "closed"
        except (ssl.SSLError, OSError) as error:
            return type(error).__name__

    people: list[tuple[str, str | None, Path | None]] = [
        ("viewer", "viewer", None), ("nobody", None, None), ("expired", "expired", None),
        ("revoked", "revoked", None), ("another authority", "a", f.others),
    ]  # fmt: skip
    return "; ".join([f"{who} {await asyncio.to_thread(ask, name, folder)}" for who, name, folder in people])


ATTACKS: tuple[Callable[[Federation], Coroutine[Any, Any, Any]], ...] = (
    no_certificate, expired, another_authority, a_viewers, a_servers, revoked_before, revoked_while_there,
    revoked_and_silent, noise, oversize_message, folded_message, malformed, path_characters, unreadable_numbers,
    unknown_method, bad_updates, replayed, files, two_connections, slow_push, half_open_tcp, half_open_tls,
    silent_streams, flood, beats, coming_and_going, unread_files, the_page,
)  # fmt: skip


async def attacked(f: Federation, only: list[str]) -> dict[str, Any]:
    """Every attack, with the server's memory before, at its peak and after, and the rounds that went on."""
    found: dict[str, Any] = {}
    peak = [0.0]

    async def watch() -> None:
        while True:
            peak[0] = max(peak[0], f.rss())
            await asyncio.sleep(0.02)

    watching = asyncio.create_task(watch())
    for attack in ATTACKS:
        if only and attack.__name__ not in only:
            continue
        before, rounds, began = f.rss(), len(f.log("closed")), time.monotonic()
        peak[0] = before
        try:
            outcome = await attack(f)
        except Exception as error:
            outcome = f"THE ATTACK BROKE: {type(error).__name__}: {error}"
        await asyncio.sleep(0.5)
        found[attack.__name__] = {
            "outcome": outcome, "seconds": round(time.monotonic() - began, 1), "rounds": len(f.log("closed")) - rounds,
            "mb_before": before, "mb_peak": peak[0], "mb_after": f.rss(), "training": f.server.poll() is None,
        }  # fmt: skip
        print(attack.__name__, json.dumps(found[attack.__name__], indent=1), flush=True)
    watching.cancel()
    return found


def main(
    rounds: Annotated[int, typer.Option(min=2, help="of training, undisturbed and under attack")] = 150,
    only: Annotated[list[str] | None, typer.Option(help="these attacks alone")] = None,
    undisturbed: Annotated[str, typer.Option(help="the digest of the undisturbed model, if it is known")] = "",
) -> None:
    """Train undisturbed, then under attack, and compare."""
    quiet = 0.0
    with tempfile.TemporaryDirectory() as temporary:
        if not undisturbed:
            (Path(temporary) / "alone").mkdir()
            alone = Federation(Path(temporary) / "alone", rounds)
            alone.begin()
            undisturbed, ends = alone.end()
            quiet = alone.last
            assert not any(ends), ends
            print("undisturbed", undisturbed, flush=True)
        (Path(temporary) / "among").mkdir()
        f = Federation(Path(temporary) / "among", rounds)
        f.begin()
        while not f.log("closed"):
            time.sleep(0.1)
        start = f.rss()
        found = asyncio.run(attacked(f, only or []))
        training, end, at = f.server.poll() is None, f.rss(), len(f.log("closed"))
        model, ends = f.end()
        replies = Counter(line["replies"] for line in f.log("closed"))
        lost = [line for line in f.log("left") if line["name"] in HONEST and line["why"] == "nothing was heard of it"]
        events = Counter(line["event"] for line in f.log())
        errors = (f.folder / "server.txt").read_text().count("Traceback")
        size = (f.folder / "served" / "log.jsonl").stat().st_size
    result = {
        "rounds": rounds, "rounds_before_the_last_attack_ended": at, "still_training_then": training,
        "model": model, "model_undisturbed": undisturbed, "identical_models": model == undisturbed,
        "rounds_by_updates": dict(replies), "honest_lost": len(lost), "exits": ends,
        "tracebacks": errors, "events": dict(events), "log_bytes": size,
        "mb_at_the_end_undisturbed": quiet, "mb_at_the_start": start, "mb_at_the_end": end,
        "mb_peak": max(one["mb_peak"] for one in found.values()),
    }  # fmt: skip
    print(json.dumps(result, indent=1))
    keep("hostile", **result, attacks=found)


if __name__ == "__main__":
    typer.run(main)
