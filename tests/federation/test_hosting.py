"""A server and its participants over real connections with certificates, from the first call to the final model."""

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import fedloom as fl
from fedloom.algorithms import Method
from fedloom.data import FederatedData
from fedloom.errors import ArgumentError
from fedloom.federation.authority import init, issue
from fedloom.federation.course import course
from fedloom.federation.hosting import Place, hosted, standing
from fedloom.federation.joining import Joined, Way, joined
from fedloom.federation.participant import Rejected
from fedloom.federation.rules import Rules
from fedloom.federation.trainer import LocalTrainer
from fedloom.runs import Run
from fedloom.runs.lock import alone
from fedloom.runs.stopping import Stop
from fedloom.tasks import Task
from fedloom.trees import flatten, member

K = 2
RULES = Rules(begin=K, quorum=1.0, patience=5.0, beat=0.5, pause=0.1)
DATA = fl.data.mnist().partition(fl.partition.iid(200))
TASK, WORK = fl.tasks.logistic(), fl.fedavg(fraction=1.0, lr=0.1, batch_size=10)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("authority") / "keys"
    init(folder, "test")
    issue(folder, "server", hosts=["localhost"], role="server")
    for k in range(K):
        issue(folder, f"p{k}")
    return folder


def part(k: int) -> FederatedData:
    return DATA.alone(k)


async def together(
    folder: Path,
    keys: Path | None,
    task: Task,
    algorithm: Method,
    rounds: int = 2,
    data: FederatedData | None = DATA,
) -> tuple[Run, list[Joined]]:
    """A whole run: the server and two participants, who come one after the other."""
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    place = Place(
        folder / "served", "localhost:0" if keys else "127.0.0.1:0", "127.0.0.1:0", keys and keys / "server",
        keys and keys / "revoked.json", started=lambda found, _: port.set_result(found),
    )  # fmt: skip
    run = course(task, algorithm, seed=3, data=data, stop=Stop(rounds), rules=RULES)
    server = asyncio.create_task(hosted(run, place))
    host = "localhost" if keys else "127.0.0.1"
    others = []
    for k in range(K):
        here: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        tell = lambda event, here=here, **_: event == "welcome" and not here.done() and here.set_result(None)  # noqa: E731
        way = Way(
            f"{host}:{await port}", folder / f"p{k}", keys and keys / f"p{k}", f"p{k}", compressed=k == 1, tell=tell
        )
        trainer = LocalTrainer(part(k), lambda said: (task, algorithm))  # noqa: ARG005
        others.append(asyncio.create_task(joined(trainer, way, "test")))
        await here
    return await server, [await one for one in others]


def test_three_over_a_secured_network_make_the_simulation_s_model_bit_for_bit(tmp_path: Path, keys: Path) -> None:
    run, others = asyncio.run(together(tmp_path, keys, TASK, WORK))
    assert run.stopped == "did 2 rounds" and run.history.last("test_accuracy") > 0.3
    pair = FederatedData("pair", DATA.columns, 10, DATA.index, {"train": two(DATA)}, {})
    program = fl.engines.compiled(devices=1).program(pair, TASK, [WORK], [3])
    state, _ = program.advance(program.init(), 0, 2)
    wanted = flatten(member(state.variables, 0))
    for name, array in flatten(run.variables).items():
        assert array.tobytes() == wanted[name].tobytes(), name
        for other in others:
            assert other.model[f"variables.{name}"].tobytes() == array.tobytes()
    assert load_file(tmp_path / "served" / "model.safetensors").keys() == wanted.keys()
    assert len(fl.load(tmp_path / "served").history) == 2
    found = standing(tmp_path / "served")
    assert (found["round"], [one["rounds"] for one in found["participants"]]) == (2, [2, 2])
    assert found["state"] == "no server is there"
    with alone(tmp_path / "served"):
        assert standing(tmp_path / "served")["state"] == "between rounds"
    events = [json.loads(line)["event"] for line in (tmp_path / "served" / "log.jsonl").read_text().splitlines()]
    assert events[0] == "serving" and events.count("closed") == 2 and "over" in events


def two(data: FederatedData) -> fl.data.federated.Ranges:
    train = data.clients["train"]
    return fl.data.federated.Ranges(train.start[:K], train.size[:K])


def test_participants_with_code_of_their_own_and_a_server_without_data(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    from sklearn.linear_model import SGDClassifier

    task = fl.clients.task(fl.clients.SklearnClient, SGDClassifier(loss="log_loss"), classes=10, features=784)
    run, others = asyncio.run(together(tmp_path, None, task, WORK, data=None))
    assert run.stopped == "did 2 rounds" and all(other.model for other in others)
    assert "test_accuracy" not in run.history.columns


def test_what_participants_keep_stays_with_them(tmp_path: Path) -> None:
    run, others = asyncio.run(together(tmp_path, None, TASK, fl.scaffold(fraction=1.0, lr=0.1, batch_size=10)))
    assert run.finished and len(others) == K
    kept = [json.loads((tmp_path / f"p{k}" / "kept.json").read_text()) for k in range(K)]
    held = [load_file(tmp_path / f"p{k}" / one["file"]) for k, one in enumerate(kept)]
    assert held[0].keys() == held[1].keys() and len(held[0]) == 2
    assert any(np.any(held[0][name] != held[1][name]) for name in held[0])


def test_only_this_machine_may_go_without_certificates(tmp_path: Path) -> None:
    run = course(TASK, WORK, data=DATA, stop=Stop(1))
    with pytest.raises(
        ArgumentError, match=r"address must be this machine's own \(127\.0\.0\.1\) without certificates"
    ):
        asyncio.run(hosted(run, Place(tmp_path, "0.0.0.0:0")))
    with pytest.raises(ArgumentError, match=r"server must be this machine's own"):
        asyncio.run(joined(LocalTrainer(part(0), lambda said: (TASK, WORK)), Way("example.org:1", tmp_path), ""))  # noqa: ARG005


def test_nobody_waits_for_a_server_for_ever_who_does_not_want_to(tmp_path: Path) -> None:
    trainer = LocalTrainer(part(0), lambda said: (TASK, WORK))  # noqa: ARG005
    with pytest.raises(Rejected, match=r"the server has not answered for 0\.1 seconds"):
        asyncio.run(joined(trainer, Way("127.0.0.1:9", tmp_path, name="a", patience=0.1), ""))


def test_a_target_needs_something_to_look_at() -> None:
    with pytest.raises(ArgumentError, match=r"data must be with test examples, which target and patience look at"):
        course(TASK, WORK, stop=Stop(5, target=0.9))
