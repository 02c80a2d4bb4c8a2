"""Finishing times against the max-plus recursion worked out by hand."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from often import often
from quadratic import points, quadratic

import fedloom as fl
from fedloom.engines import clock
from fedloom.engines.clock import Message, nothing
from fedloom.errors import ArgumentError
from fedloom.mixing import gossip
from fedloom.quantity import Fixed, Lognormal, Trace, quantity

ONE = np.ones(4, int)
SOME = ("personalised", "ifca", "scaffold")  # of which a share of all takes part
SLOW = Trace(np.array([[1.0, 1.0, 1.0, 3.0]]))  # the last worker takes three seconds a step, the others one


def heard(name: str, workers: int) -> np.ndarray:
    matrix = np.zeros((workers, workers), bool)
    matrix[np.arange(workers)[:, None], gossip(name, workers).index[0]] = True
    np.fill_diagonal(matrix, False)
    return matrix


def summed(run: fl.Run) -> np.ndarray:
    params = run.variables.params
    return np.asarray(params["body"]["w"] + params["output"]["w"])


def test_a_ring_by_hand() -> None:
    """t_k ← max(c_k, c_neighbours + 0.5): a slow worker holds up its neighbours first, the one opposite later."""
    found = clock(SLOW, latency=0.5)
    ready = found.exchanged(np.zeros(4), ONE, heard("ring", 4), size=100, round=0)
    assert ready.tolist() == [3.5, 1.5, 3.5, 3.0]
    ready = found.exchanged(ready, ONE, heard("ring", 4), size=100, round=1)
    assert ready.tolist() == [6.5, 5.0, 6.5, 6.0]
    ready = found.exchanged(ready, ONE, heard("ring", 4), size=100, round=2)
    assert ready.tolist() == [9.5, 8.0, 9.5, 9.0]


def test_a_server_waits_for_its_slowest() -> None:
    """Down 0.5, three steps of 3 s, up 0.5."""
    found = clock(SLOW, latency=0.5)
    took, over = found.served(np.array([2, 3]), np.array([5, 3]), Message(100, 100), workers=4, round=0)
    assert took.tolist() == [6.0, 10.0]
    assert over == 10.0


def test_links_are_shared_by_messages_that_pass_at_once() -> None:
    """On a star the middle has three messages in and three out; at 100 bytes a second, 50 bytes take 1.5 s there."""
    found = clock(1.0, bandwidth=100)
    assert found.exchanged(np.zeros(4), ONE, heard("star", 4), size=50, round=0).tolist() == [2.5] * 4
    assert found.exchanged(np.zeros(4), ONE, heard("ring", 4), size=50, round=0).tolist() == [2.0] * 4
    narrow = clock(1.0, bandwidth=100, server_bandwidth=200)
    four = narrow.served(np.arange(4), ONE, Message(50, 50), workers=4, round=0)
    assert (four[0].tolist(), four[1]) == ([3.0] * 4, 3.0)  # 4 · 50 bytes at 200 a second, both ways


def test_who_is_late_or_lost_is_given_up_at_the_deadline() -> None:
    late = clock(SLOW, deadline=2.0)
    took, over = late.served(np.arange(4), ONE, Message(0, 0), workers=4, round=0)
    assert (took.tolist(), over) == ([1.0, 1.0, 1.0, np.inf], 2.0)
    lost = clock(1.0, lost=0.5, deadline=7.0, seed=3)
    there = lost.machines(4, 0).there
    assert 0 < there.sum() < 4
    ready = lost.exchanged(np.zeros(4), ONE, heard("complete", 4), size=0, round=0)
    assert ready.tolist() == [8.0 if t else 7.0 for t in there]  # a second's work, then seven of waiting; or away


def test_machines_are_drawn_once_and_may_flicker() -> None:
    steady, flickering = clock("lognormal:2:0.5", seed=1), clock("lognormal:2:0.5:0.1", seed=1)
    assert (steady.machines(5, 0).compute == steady.machines(5, 9).compute).all()
    assert (flickering.machines(5, 0).compute != flickering.machines(5, 1).compute).all()
    assert (flickering.machines(5, 1).compute == flickering.machines(5, 1).compute).all()
    assert (clock("lognormal:2:0.5", seed=2).machines(5, 0).compute != steady.machines(5, 0).compute).all()
    assert abs(np.log(Lognormal(2, 0.5).of(100_000, 0, [0])).mean() - np.log(2)) < 0.01


def test_traces_are_read_and_begin_again(tmp_path: Path) -> None:
    (tmp_path / "steps.csv").write_text("1,2\n3,4\n5,6\n")
    trace = quantity("compute", str(tmp_path / "steps.csv"))
    assert trace.of(3, round=4, seed=[0]).tolist() == [3, 4, 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compute": "fast"}, "compute must be a number, lognormal:MEDIAN:SPREAD.*, but is 'fast'"),
        ({"compute": "uniform:2:1"}, "compute must be uniform:LOW:HIGH with LOW below HIGH"),
        ({"compute": "uniform:1"}, "compute must be a number"),
        ({"compute": "lognormal:1:-1"}, "compute must be one whose spread is between 0 and 10"),
        ({"compute": "inf"}, "compute must be finite"),
        ({"compute": "uniform:0:inf"}, "compute must be made of finite numbers"),
        ({"compute": "lognormal:1:1000"}, "compute must be one whose spread is between 0 and 10"),
        ({"compute": "nan"}, "compute must be at least 0, but is nan"),
        ({"compute": 1, "latency": -0.1}, "latency must be at least 0, but is -0.1"),
        ({"compute": 1, "bandwidth": 0}, "bandwidth must be at least 1, but is 0.0"),
        ({"compute": 1, "server_bandwidth": 0}, "server_bandwidth must be above 0"),
        ({"compute": 1, "lost": 1.0}, "lost must be at least 0 and below 1"),
        ({"compute": 1, "lost": 0.1}, "deadline must be given where workers are lost"),
        ({"compute": 1, "deadline": 0}, "deadline must be above 0"),
        ({"compute": "none.csv"}, "compute must be a CSV file that exists, but is 'none.csv'"),
    ],
)
def test_bad_numbers(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        clock(**options)


@pytest.mark.parametrize(
    ("text", "message"), [("1,2\n3\n", "rows of unequal length"), ("", "rows"), ("a,b\n", "numbers")]
)
def test_bad_traces(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "steps.csv").write_text(text)
    with pytest.raises(ArgumentError, match=message):
        quantity("compute", str(tmp_path / "steps.csv"))


def test_a_run_by_the_clock() -> None:
    """A server, K = 4, two steps each: T ← T + 2·0.5 + 2·3; a ring: the recursion above with steps twice as long."""
    data, task = points([0.0, 1.0, 2.0, 3.0], each=1), quadratic()
    kept = {"rounds": 3, "evaluate": ["train"], "clock": clock(SLOW, latency=0.5)}
    served = fl.run(data, task, fl.fedavg(fraction=1.0, epochs=2, batch_size=1, lr=0.1), **kept)
    assert served.history.column("clock").tolist() == [0, 7, 14, 21]
    model = 8  # bytes of two numbers
    assert served.history.column("busiest_bytes").tolist() == [0, 2 * model, 4 * model, 6 * model]
    ring = fl.run(data, task, fl.dpa_sgd("ring", period=1, batch_size=1, lr=0.1), **kept)
    assert ring.history.column("clock").tolist() == [0, 3.5, 6.5, 9.5]
    assert ring.passed is not None
    assert ring.passed.ready.tolist() == [9.5, 8.0, 9.5, 9.0]
    assert ring.passed.up.tolist() == ring.passed.down.tolist() == [3 * 2 * model] * 4
    alone = fl.run(data, task, fl.local_only(fraction=1.0, epochs=1, batch_size=1, lr=0.1), **kept)
    assert alone.history.column("clock").tolist() == [0, 3, 6, 9]
    assert alone.history.last("bytes_up") == 0


def test_the_slowest_is_who_has_the_most_work(generated: Any) -> None:
    """Of two experiments in one program, each with its own epochs: 3 batches of 10, twice, is the longest."""
    data, how = generated([30, 10, 20]), [fl.fedavg(fraction=1.0, epochs=epochs, batch_size=10) for epochs in (1, 2)]
    program = fl.engines.compiled(lanes=2).program(data, fl.tasks.logistic(4, 3), how, [0, 1], clock=clock(1.0))
    assert [program.passed(nothing(3), 0, 4, member).now for member in (0, 1)] == [12, 24]
    assert program.passed(nothing(3), 0, 1, 1).ready.tolist() == [6, 2, 4]
    alone = [fl.local_only(fraction=1.0, epochs=2, batch_size=10)]
    program = fl.engines.compiled().program(data, fl.tasks.logistic(4, 3), alone, [0], clock=clock(1.0))
    assert program.passed(nothing(3), 0, 2, 0).ready.tolist() == [12, 4, 8]


def test_who_is_late_does_not_count() -> None:
    """The mean without the last, which is always late: as if it were not there."""
    task, how = quadratic(), fl.fedavg(fraction=1.0, batch_size=None, lr=0.5)
    four, three = points([0.0, 1.0, 2.0, 9.0], each=1), points([0.0, 1.0, 2.0], each=1)
    late = fl.run(four, task, how, rounds=3, evaluate=["train"], clock=clock(SLOW, deadline=2.0))
    without = fl.run(three, task, how, rounds=3, evaluate=["train"])
    assert summed(late).item() == pytest.approx(summed(without).item(), abs=1e-7)
    assert late.history.column("clock").tolist() == [0, 2, 4, 6]
    assert late.history.last("steps") == 9
    assert late.history.last("bytes_up") == 3 * 3 * 8
    assert late.history.last("bytes_down") == 3 * 4 * 8


def test_a_lost_peer_keeps_its_model_and_its_neighbours_their_share() -> None:
    """On a complete graph of three, W = 1/3 each: who is there takes the lost one's third from itself."""
    data, task = points([0.0, 3.0, 6.0], each=1), quadratic()
    lossy = clock(1.0, lost=0.4, deadline=1.0, seed=5)
    there = lossy.machines(3, 0).there
    assert there.tolist() == [True, False, True]
    done = fl.run(data, task, fl.dpa_sgd("complete", period=1, batch_size=1, lr=0.25), rounds=1, evaluate=["train"],
                  clock=lossy)  # fmt: skip
    first = np.array([0.0, 0.0, 6.0 * 0.5])  # after a step of half the way from zero; the second does nothing
    assert summed(done).tolist() == pytest.approx([(2 * first[0] + first[2]) / 3, 0.0, (2 * first[2] + first[0]) / 3])


def test_a_stopped_run_goes_on_by_the_same_clock(tmp_path: Path) -> None:
    data, task = points([0.0, 1.0, 2.0, 3.0], each=1), quadratic()
    how = fl.dpa_sgd("ring", period=2, batch_size=1, lr=0.1)
    time = clock("lognormal:1:0.5:0.3", latency=0.1, bandwidth=100, lost=0.2, deadline=3.0)
    whole = fl.run(data, task, how, rounds=6, evaluate=["train"], clock=time)
    fl.run(data, task, how, rounds=2, evaluate=["train"], clock=time, directory=tmp_path)
    again = fl.run(data, task, how, rounds=6, evaluate=["train"], clock=time, directory=tmp_path)
    assert again.passed is not None
    kept = json.loads((tmp_path / "workers.json").read_text())["workers"]
    assert [one["seconds"] for one in kept] == again.passed.ready.tolist()
    assert sum(one["bytes_up"] for one in kept) == again.history.last("bytes_up")
    for name in ("clock", "busiest_bytes", "bytes_up", "own_train_loss"):
        assert again.history.column(name).tolist() == whole.history.column(name).tolist()
    with pytest.raises(fl.errors.CheckpointError, match="holds another run"):
        fl.run(data, task, how, rounds=7, evaluate=["train"], clock=clock(1.0), directory=tmp_path)


def test_everybody_has_a_fixed_number() -> None:
    assert Fixed(2.0).of(3, 0, [0]).tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    "how", often(["dpa-sgd", "push-sum", "dpa-sgd-mtl", "fedavg-mtl", "personalised", "ifca", "scaffold"],
                 ("dpa-sgd", "scaffold"))
)  # fmt: skip
def test_lost_workers_are_seen_by_nobody(how: str, tmp_path: Path) -> None:
    """Users are measured, kept and read again where some are lost in every round, and nobody is there in some."""
    data = points([0.0, 1.0, 2.0, 3.0, 4.0], each=1)
    e = fl.runs.Experiment(algorithm=how, batch_size=1, **({"fraction": 1.0} if how in SOME else {}))
    lossy = clock(1.0, lost=0.6, deadline=2.0, seed=2)
    there = np.array([lossy.machines(5, round).there for round in range(4)])
    assert there.sum(1).tolist() == [0, 2, 1, 2]
    run = fl.run(data, quadratic(), e.build_algorithm(), rounds=4, evaluate=["train"], users=True, clock=lossy,
                 directory=tmp_path)  # fmt: skip
    seen = np.isfinite(run.users.by_client("after_loss", 5))
    assert (seen == there).all()
    assert (np.isfinite(fl.runs.load(tmp_path).users.by_client("after_loss", 5)) == there).all()


def test_who_picks_peers_waits_for_those_it_picked(generated: Any) -> None:
    """Messages by the clock are what the mixing matrix shows."""
    data, how = generated([10] * 6), fl.personalised(peers=2, fraction=1.0, batch_size=10)
    lossy = clock(1.0, lost=0.5, deadline=2.0, seed=2)
    done = fl.run(data, fl.tasks.logistic(4, 3), how, rounds=3, evaluate=["test"], users=True, clock=lossy)
    mixed = [int(((m > 0) & ~np.eye(6, dtype=bool)).sum()) for m in done.users.column("mixing")]
    assert np.diff(done.history.column("bytes_up")).tolist() == [4 * 15 * many for many in mixed]
    assert sum(mixed) > 0


def test_nobody_there_and_examples_streamed(generated: Any) -> None:
    data, lossy = generated([10] * 4), clock(1.0, lost=0.9, deadline=5.0)
    assert any(not lossy.machines(4, round).there.any() for round in range(4))
    kept = {"rounds": 4, "evaluate": ["test"], "clock": lossy}
    task, how = fl.tasks.logistic(4, 3), fl.fedavg(fraction=1.0, batch_size=10)
    streamed = fl.run(data, task, how, engine=fl.engines.compiled(stream=True), **kept)
    resident = fl.run(data, task, how, **kept)
    assert streamed.history.last("test_loss") == pytest.approx(resident.history.last("test_loss"), abs=1e-6)


def test_nothing_is_sent_where_all_data_is_in_one_place(generated: Any) -> None:
    data = generated([10, 20]).union()
    done = fl.run(data, fl.tasks.logistic(4, 3), fl.fedavg(fraction=1.0, batch_size=10), rounds=2, evaluate=["test"],
                  clock=clock(1.0, latency=5.0))  # fmt: skip
    assert done.history.column("clock").tolist() == [0, 3, 6]


def test_without_a_clock_nothing_passes(generated: Any) -> None:
    done = fl.run(generated([10, 20]), fl.tasks.logistic(4, 3), fl.fedavg(fraction=1.0), rounds=1, evaluate=["test"])
    assert done.passed is None
    assert "clock" not in done.history.columns


@pytest.mark.parametrize("devices", [1, 2])
def test_a_round_in_which_nobody_answers_moves_no_server(tmp_path: Path, devices: int) -> None:
    (tmp_path / "slow.csv").write_text("0.1\n9\n9\n")  # from the second round on, all are late
    late, engine = clock(str(tmp_path / "slow.csv"), deadline=2.0), fl.engines.compiled(devices=devices)
    for name in ("average", "momentum", "adam"):
        for combiner in (fl.combine.mean, fl.combine.median()):
            algorithm = fl.fedavg(fraction=1.0, server=fl.server(name), combiner=combiner, batch_size=None)
            ends = [summed(fl.run(points([4.0, -1.0, 2.0]), quadratic(), algorithm, rounds=n, clock=late, engine=engine,
                                  evaluate=["test"])) for n in (1, 3)]  # fmt: skip
            assert ends[0] == ends[1] != 0, name
