"""The door, from outside: over real TLS, with certificates made on the fly, by people who do not keep to the rules."""

import asyncio
import contextlib
import socket
import ssl
import struct
import warnings
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import numpy as np
import pytest
from intruder import GOOD, Intruder, Site, ended, order, update

import fedloom.federation.door as module
from fedloom.federation.authority import init, issue, revoke
from fedloom.federation.disk import digest
from fedloom.federation.keys import Keys
from fedloom.federation.rules import Rules
from fedloom.federation.wire import CHUNK, LARGEST, PROTOCOL
from fedloom.federation.wire_pb2 import Beat, Chunk, Update, Verdict, Want

METHODS = ("Attend", "Fetch", "Held", "Push", "Submit")
CODE = grpc.StatusCode


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("door")
    keys = init(folder / "keys", "here", now=datetime.now(UTC) - timedelta(days=9))
    issue(keys, "server", role="server", hosts=("localhost",))
    for name in ("a", "b", "late", "gone"):
        issue(keys, name)
    issue(keys, "viewer", role="viewer")
    issue(keys, "past", days=1, now=datetime.now(UTC) - timedelta(days=3))
    other = init(folder / "others", "there")
    issue(other, "a")
    return folder


@pytest.fixture
def site(authority: Path, tmp_path: Path) -> Site:
    (tmp_path / "keys").symlink_to(authority / "keys")
    return Site(tmp_path)


def during(site: Site, what: Callable[[Site], Coroutine[Any, Any, None]]) -> None:
    async def live() -> None:
        async with site.serving():
            await what(site)

    asyncio.run(live())


async def refused(call: Coroutine[Any, Any, Any]) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


def keys(site: Site, name: str, folder: str = "keys") -> Keys:
    """Those of a folder, valid or not."""
    place = (site.folder / "keys").resolve().parent / folder / name
    return Keys(*((place / file).read_bytes() for file in ("key.pem", "cert.pem", "ca.pem")))


async def call_with(site: Site, mine: Keys, method: str = "Held") -> grpc.aio.AioRpcError:
    async with Intruder(site.port, mine) as intruder:
        return await refused(intruder.call(method, Want(file="0" * 64).SerializeToString()))


def test_who_has_no_good_certificate_does_not_get_in(site: Site) -> None:
    async def check(site: Site) -> None:
        ours = keys(site, "a").ca
        past, other = keys(site, "past"), keys(site, "a", "others")
        for mine in (past, Keys(other.key, other.cert, ours), keys(site, "server")):
            assert (await call_with(site, mine)).code() == CODE.UNAVAILABLE  # TLS ends it
        bare = grpc.aio.secure_channel(f"localhost:{site.port}", grpc.ssl_channel_credentials(ours))
        call = bare.unary_unary(f"/{module.SERVICE}/Held")(b"", timeout=5)
        assert (await refused(call)).code() == CODE.UNAVAILABLE
        await bare.close()
        for method in METHODS:
            told = await call_with(site, keys(site, "viewer"), method)
            assert told.code() == CODE.PERMISSION_DENIED
            assert told.details() == "viewer is a viewer, and does not take part"
        assert site.told("turned away")[0]["name"] == "viewer"
        assert not site.coordinator.members

    during(site, check)


def test_a_certificate_that_is_revoked_ends_what_is_under_way(site: Site) -> None:
    async def check(site: Site) -> None:
        async with site.intruder("gone") as gone, site.intruder("a") as other:
            attending = await gone.attend()
            await order(attending, "work")
            pushing = gone.stream("Push")
            await pushing.write(Chunk(file="0" * 64, size=90, content=b"x").SerializeToString())
            await asyncio.sleep(0.1)
            revoke(site.folder / "keys", "gone")
            began = asyncio.get_running_loop().time()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await order(attending, "rest")
            assert caught.value.code() == CODE.PERMISSION_DENIED
            assert "revoked" in str(caught.value.details())
            assert asyncio.get_running_loop().time() - began < 2
            with contextlib.suppress(grpc.aio.AioRpcError):  # which the server may not want to hear
                await pushing.write(Chunk(content=b"y").SerializeToString())
            assert (await ended(pushing)).code() == CODE.PERMISSION_DENIED
            assert (await refused(gone.held("0" * 64))).code() == CODE.PERMISSION_DENIED
            assert "gone" not in site.coordinator.present
            await order(await other.attend(), "work")  # others go on

    during(site, check)


def test_a_certificate_that_expires_ends_its_attendance(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(site: Site) -> None:
        async with site.intruder("a") as mine:
            attending = await mine.attend()
            await order(attending, "work")
            known = module._known
            monkeypatch.setattr(module, "_known", lambda proof: (known(proof)[0], 0.0))
            with pytest.raises(grpc.aio.AioRpcError, match="expired"):
                await order(attending, "rest")

    during(site, check)


def test_a_damaged_list_of_revocations_closes_the_door_for_a_while_only(site: Site) -> None:
    async def check(site: Site) -> None:
        path = site.folder / "revoked.json"
        path.write_text("[")
        site.door.revoked.path = path
        async with site.intruder("a") as mine:
            assert (await refused(mine.held("0" * 64))).code() == CODE.UNAVAILABLE  # not for good
            path.write_text("[]")
            assert (await refused(mine.held("0" * 64))).code() == CODE.FAILED_PRECONDITION

    during(site, check)


def test_what_cannot_be_meant_is_refused_by_every_method(site: Site) -> None:
    path = Want(file="../../../../etc/passwd").SerializeToString()
    long = Beat(protocol=PROTOCOL, version="x" * 300).SerializeToString()
    bad: dict[str, list[bytes]] = {
        "Attend": [b"\xff\xff", long, Beat(version="\x1b[31m").SerializeToString()],
        "Fetch": [b"\xff\xff", b"", path],
        "Held": [b"\xff\xff", b"", path],
        "Push": [b"\xff\xff", b"", Chunk(file="../x", size=1, content=b"x").SerializeToString(),
                 Chunk(file="0" * 64, size=9).SerializeToString(),
                 Chunk(file="0" * 64, size=1, content=bytes(CHUNK + 1)).SerializeToString(),
                 Chunk(file="0" * 64, size=2**63, content=b"x").SerializeToString(),
                 Chunk(file="0" * 64, size=2, content=b"xyz").SerializeToString()],
        "Submit": [b"\xff\xff", b"", Update(file="0" * 64, readings={"a": np.nan}).SerializeToString(),
                   Update(file="0" * 64, measures={str(i): 0 for i in range(65)}).SerializeToString(),
                   Update(file="0" * 64, readings={"\x1b": 0}).SerializeToString(), path],
    }  # fmt: skip

    async def check(site: Site) -> None:
        async with site.intruder("a") as mine:
            await order(await mine.attend(), "work")
            for method, contents in bad.items():
                for content in contents:
                    told = await refused(mine.call(method, content))
                    assert told.code() == CODE.INVALID_ARGUMENT, (method, content[:80], told)
                assert (await refused(mine.call(method, bytes(LARGEST + 1)))).code() == CODE.RESOURCE_EXHAUSTED
            for method in ("Fetch", "Held", "Submit"):
                assert (await refused(mine.call(method))).code() == CODE.INVALID_ARGUMENT
            assert (await refused(mine.call("Rule", b""))).code() == CODE.UNIMPLEMENTED
            assert all(name == "trouble" for name, _ in site.events if name not in ("came", "left", "round", "void"))
        assert {path.name for path in site.disk.folder.iterdir()} <= set(site.disk.names())

    during(site, check)


def test_a_message_that_unfolds_is_not_unfolded(site: Site) -> None:
    async def check(site: Site) -> None:
        async with Intruder(site.port, keys(site, "a"), compression=grpc.Compression.Gzip) as mine:
            await order(await mine.attend(), "work")
            huge = Chunk(file="0" * 64, size=1, content=bytes(2**26)).SerializeToString()  # 64 kB when it is folded
            assert (await refused(mine.call("Push", huge))).code() == CODE.RESOURCE_EXHAUSTED

    during(site, check)


BAD = {
    "holds numbers that are not finite": {"update.params.w": np.array([1, np.nan, 1], np.float32)},
    "not finite": {"update.params.w": np.array([1, np.inf, 1], np.float32)},
    "of shape (4,)": {"update.params.w": np.zeros(4, np.float32)},
    "is float64": {"update.params.w": np.zeros(3, np.float64)},
    "it lacks update.params.w": {"w": np.zeros(3, np.float32)},
    "it has x too": {**GOOD, "x": np.zeros(1, np.float32)},
    "numbers beyond 1e+15": {"update.params.w": np.full(3, 3e38, np.float32)},
    "its norm is": {"update.params.w": np.full(3, 1e6, np.float32)},
}
CLAIMS: dict[str, dict[str, Any]] = {
    "it claims 0 examples": {"examples": 0},
    "it claims 18,446,744,073,709,551,615 examples": {"examples": 2**64 - 1},
    "it claims a x of 1e+300": {"readings": {"x": 1e300}},
    "right on 9 of 2 examples": {"measures": {"accuracy": 9.0, "count": 2.0}},
}


def test_bad_updates_count_against_their_sender_who_is_left_out_after_three(site: Site) -> None:
    site.rules = Rules(begin=1, quorum=0.01, patience=0.0, pause=0.05, norm=1e3, offences=len(BAD) + len(CLAIMS))

    async def check(site: Site) -> None:
        async with site.intruder("a") as mine:
            attending = await mine.attend()
            cases = [(why, update(arrays), {}) for why, arrays in BAD.items()]
            cases += [(why, update(GOOD), claims) for why, claims in CLAIMS.items()]
            for i, (why, content, claims) in enumerate(cases):
                work = await order(attending, "work")
                verdict = await mine.deliver(work, content, **claims)
                assert verdict.outcome == Verdict.REFUSED, why
                assert why in verdict.why
                assert site.coordinator.members["a"].offences == i + 1
            assert "takes no part any more" in (await order(attending, "refusal")).why
            assert "takes no part any more" in (await order(await mine.attend(), "refusal")).why
            assert (await mine.push(update(GOOD))) == len(update(GOOD))  # as if: nothing is written
            assert not [name for name in site.disk.names() if name.endswith(".part")]
            verdict = await mine.submit(work, update(GOOD))
            assert verdict.outcome == Verdict.REFUSED
            assert "takes no part any more" in verdict.why
        assert len(site.told("refused")) == len(cases)
        assert len(site.coordinator.history) == 0

    during(site, check)


def test_an_update_counts_once_and_for_its_own_sender(site: Site) -> None:
    content = update(GOOD)
    site.rules = Rules(begin=2, quorum=0.01)

    async def check(site: Site) -> None:
        async with site.intruder("a") as mine, site.intruder("b") as other:
            mines, others = await mine.attend(), await other.attend()
            work = await order(others, "work")
            assert (await mine.deliver(work, content)).outcome == Verdict.COUNTED
            assert (await mine.submit(work, content)).outcome == Verdict.COUNTED
            assert await mine.held(digest(content)) == len(content)
            assert await other.held(digest(content)) == 0  # what others sent is nobody's business
            assert (await other.submit(work, content)).outcome == Verdict.MISSING
            assert (
                await mine.deliver(work, update({"update.params.w": np.ones(3, np.float32)}))
            ).outcome == Verdict.LATE
            short = await other.push(content[:-1], file=digest(content), size=len(content))
            assert short == len(content) - 1
            assert (await other.submit(work, content)).outcome == Verdict.MISSING
            wrong = bytes(len(content))
            await other.push(wrong, file=digest(content))
            assert (await other.submit(work, content)).outcome == Verdict.MISSING
            assert not [name for name in site.disk.names() if name.endswith(".part")]
            assert (await other.deliver(work, content)).outcome == Verdict.COUNTED
            later = await order(mines, "work")
            while later.round == work.round:
                later = await order(mines, "work")
            assert (await mine.submit(work, content)).outcome == Verdict.LATE
            strange = await mine.submit(later, content, run="another")
            assert strange.outcome == Verdict.REFUSED
            assert site.coordinator.members["a"].offences == 0

    during(site, check)


def test_of_two_with_one_certificate_the_newer_stays(site: Site) -> None:
    async def check(site: Site) -> None:
        async with site.intruder("a") as first, site.intruder("a") as second:
            before = await first.attend()
            await order(before, "welcome")
            after = await second.attend()
            assert (await order(before, "refusal")).why == "somebody else has come under the same name"
            await order(after, "work")
            assert list(site.coordinator.present) == ["a"]

    during(site, check)


def test_calls_of_one_participant_are_counted_and_paced(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BURST", 20)

    async def check(site: Site) -> None:
        async with site.intruder("a") as mine, site.intruder("a") as again, site.intruder("b") as other:
            silent = [mine.stream("Submit") for _ in range(module.CALLS)]  # which never say what
            for call in silent:
                await call.wait_for_connection()
            await asyncio.sleep(0.3)
            assert (await refused(again.held("0" * 64))).code() == CODE.RESOURCE_EXHAUSTED
            await order(await other.attend(), "work")
            for call in silent:
                call.cancel()
            await asyncio.sleep(0.1)
            assert not site.door.calls["a"]
            began = asyncio.get_running_loop().time()
            for _ in range(40):
                assert (await refused(mine.held("0" * 64))).code() == CODE.FAILED_PRECONDITION
            assert asyncio.get_running_loop().time() - began > 0.3  # at most 20 of them were free

    during(site, check)


def test_who_says_nothing_does_not_stay(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SILENCE", 0.3)

    async def check(site: Site) -> None:
        async with site.intruder("a") as mine, site.intruder("a") as again:
            await order(await again.attend(), "work")
            for method in METHODS:
                call = mine.stream(method)
                async with asyncio.timeout(3):
                    assert await call.code() == CODE.DEADLINE_EXCEEDED, method
        assert not site.door.calls

    during(site, check)


def test_a_push_in_drops_ends(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.Door, "_long", 1.0)

    async def check(site: Site) -> None:
        async with site.intruder("a") as mine, site.intruder("b") as other:
            await order(await mine.attend(), "work")
            pushing = mine.stream("Push")
            await pushing.write(Chunk(file="0" * 64, size=90, content=b"x").SerializeToString())

            async def drip() -> None:
                while True:
                    await asyncio.sleep(0.1)
                    await pushing.write(Chunk(content=b"x").SerializeToString())

            dripping = asyncio.create_task(drip())
            await order(await other.attend(), "welcome")
            async with asyncio.timeout(3):
                assert (await ended(pushing)).code() == CODE.DEADLINE_EXCEEDED
            await asyncio.gather(dripping, return_exceptions=True)
            assert not site.service.locks["a"].locked()

    during(site, check)


def test_who_takes_no_orders_does_not_stay(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(*_: Any) -> None:  # as a peer whose window is closed
        async with asyncio.timeout(0.2):
            await asyncio.sleep(60)

    monkeypatch.setattr(module.Call, "answer", slow)

    async def check(site: Site) -> None:
        async with site.intruder("a") as mine:
            attending = await mine.attend()
            assert await attending.code() == CODE.DEADLINE_EXCEEDED
            assert not site.coordinator.present

    during(site, check)


def test_signs_of_life_are_heard_ten_times_a_second(site: Site) -> None:
    async def check(site: Site) -> None:
        heard = []
        beat = site.coordinator.beat
        site.coordinator.beat = lambda *said: (heard.append(1), beat(*said))  # type: ignore[method-assign]
        async with site.intruder("a") as mine:
            attending = await mine.attend()
            for _ in range(300):
                await attending.write(Beat(protocol=PROTOCOL).SerializeToString())
            await asyncio.sleep(0.5)
        assert 2 <= len(heard) <= 8

    during(site, check)


def test_an_error_of_the_servers_own_says_no_more(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(site: Site) -> None:
        monkeypatch.setattr(site.service, "held", lambda *_: 1 / 0)
        async with site.intruder("a") as mine:
            told = await refused(mine.held("0" * 64))
            assert (told.code(), told.details()) == (CODE.INTERNAL, "an error of the server's own")
        assert site.told("trouble") == [{"name": "a", "why": "ZeroDivisionError: division by zero"}]

    during(site, check)


def test_noise_and_half_open_connections_keep_nobody_out(site: Site) -> None:
    async def check(site: Site) -> None:
        loop = asyncio.get_running_loop()
        opened = [socket.create_connection(("localhost", site.port)) for _ in range(100)]
        opened[0].sendall(b"GET / HTTP/1.1\r\n\r\n")
        opened[1].sendall(bytes(100_000))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            context = ssl.create_default_context(cadata=keys(site, "a").ca.decode())
            half = ssl.MemoryBIO()
            with pytest.raises(ssl.SSLWantReadError):
                context.wrap_bio(ssl.MemoryBIO(), half, server_hostname="localhost").do_handshake()
        hello = half.read()
        for one in opened[2:50]:
            one.sendall(hello)
        began = loop.time()
        async with site.intruder("a") as mine:
            await order(await mine.attend(), "work")
        assert loop.time() - began < 3
        for one in opened:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.close()

    during(site, check)
