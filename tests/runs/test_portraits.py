from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from quadratic import held_out, points, quadratic

import fedloom as fl
from fedloom.algorithms import dpa_sgd_mtl, local_only, personalised
from fedloom.data import FederatedData
from fedloom.errors import FedloomError, UnknownName
from fedloom.mixing import GRAPHS, topology
from fedloom.mixing.drawing import draw_graph
from fedloom.runs import run
from fedloom.runs.portraits import animation, bands, heard, mixing, related, violins, workers
from fedloom.runs.users import Users

VALUES = [4.0, -1.0, 2.0, 0.5]
WORK: dict[str, Any] = {"lr": 0.1, "epochs": 1, "batch_size": None, "fraction": 1.0}


def test_figures(tmp_path: Path) -> None:
    done = run(points(VALUES), quadratic(), personalised(**WORK), rounds=3, users=True)
    pair = ("mine", done.users)
    figure = bands([pair, pair], "loss", tmp_path / "bands.png")
    assert [len(axes.lines) for axes in figure.axes[::2]] == [3, 3]
    drawn = violins([pair, pair], file=tmp_path / "violins.png")
    assert [(axes.get_title(), len(axes.get_xticks())) for axes in drawn.axes] == [
        ("before fitting", 2), ("after fitting", 2)]  # fmt: skip
    assert [axes.get_title() for axes in mixing(done.users, tmp_path / "mixing.png").axes[:3]] == [
        "round 1", "round 2", "round 3"]  # fmt: skip
    assert all((tmp_path / f"{name}.png").stat().st_size > 5000 for name in ("bands", "violins", "mixing"))


def test_figures_of_nothing() -> None:
    users = Users() + {"round": 1, "client": np.arange(2), "after_loss": np.ones(2)}
    with pytest.raises(FedloomError, match="mine measured no users"):
        bands([("mine", Users())])
    with pytest.raises(UnknownName, match="metric must be one of loss, but is 'accuracy'"):
        bands([("mine", users)])
    with pytest.raises(FedloomError, match="no mixing matrix was recorded"):
        mixing(users)
    with pytest.raises(UnknownName, match="after_loss"):
        users.last("before_loss")


def test_a_ring_of_workers(tmp_path: Path) -> None:
    """Who hears whom is read off how they mixed; the picture and the animation show every worker."""
    how = dpa_sgd_mtl("ring", period=1, batch_size=1, lr=0.1)
    done = run(points(VALUES, each=1), quadratic(), how, rounds=3, evaluate=["test"], users=True)
    ring = heard(done.users)
    assert ring.heard.astype(int).tolist() == [[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]]
    figure = workers("ring", done.users, done.history, ring, tmp_path / "workers.png")
    assert len(figure.axes[1].lines) == 5  # four workers and their mean
    assert figure.axes[2].lines[0].get_ydata().tolist() == done.history.column("consensus")[1:].tolist()
    animation("ring", done.users, tmp_path / "workers.gif")
    with Image.open(tmp_path / "workers.gif") as gif:
        assert gif.n_frames == 3  # type: ignore[attr-defined]
    assert related(done.users, tmp_path / "related.png").axes[0].get_title() == "round 1"


@pytest.mark.parametrize(
    ("data", "on", "moments"),
    [
        (
            points(VALUES),
            "on its own test data",
            ["before fitting", "after fitting", "after fitting, on everybody's data"],
        ),
        (
            held_out(VALUES, [-0.5]),
            "on everybody's test data",
            ["before fitting, on everybody's data", "after fitting, on everybody's data"],
        ),
    ],
    ids=["own", "held out"],
)
def test_figures_say_on_whose_test_data_workers_are_measured(
    data: FederatedData, on: str, moments: list[str], tmp_path: Path
) -> None:
    done = run(data, quadratic(), fl.dpa_sgd("ring", period=1, batch_size=1, lr=0.1), rounds=1, users=True)
    figure = workers("ring", done.users, done.history)
    assert figure.axes[1].get_title() == f"every worker, {on}"
    assert f"accuracy {on}" in [axes.get_ylabel() for axes in figure.axes]
    animation("ring", done.users, tmp_path / "workers.gif")
    left, right = bands([("ring", done.users)]).axes
    assert [text.get_text() for text in left.get_legend().get_texts()] == moments
    assert len(right.get_xticks()) == len(moments)
    beginning, end = violins([("ring", done.users)]).axes
    assert (beginning.get_title(), end.get_title()) == (moments[0], moments[1])
    assert (beginning.get_ylabel(), end.get_ylabel()) == ("accuracy", "accuracy")


def test_how_alike_workers_are_found_to_be() -> None:
    """On a ring, two who are two steps apart have a neighbour who knows both; nobody knows of others."""
    how = dpa_sgd_mtl("ring", period=1, batch_size=1, lr=0.1, eta=1.0, lambdas=(0.0, 0.0, 0.0, 0.0))
    done = run(points([4.0, 3.0, 2.0, 1.0, 5.0, 6.0, 7.0], each=1), quadratic(), how, rounds=1, evaluate=["test"],
               users=True)  # fmt: skip
    found = done.users.last("related")
    away = np.abs(np.arange(7)[:, None] - np.arange(7))
    near = np.minimum(away, 7 - away) <= 2
    assert ((found != 0) == near).all()
    assert np.diagonal(found) == pytest.approx(np.ones(7))


def test_the_distance_of_models_from_their_mean() -> None:
    """Alone, each goes a fifth of the way to its value: half of that in each of two numbers."""
    done = run(points(VALUES, each=1), quadratic(), local_only(**WORK), rounds=1, evaluate=["test"])
    moved = 0.1 * np.array(VALUES)
    expected = np.sqrt(2 * np.mean((moved - moved.mean()) ** 2))
    assert done.history.column("consensus").tolist() == pytest.approx([0.0, expected], abs=1e-6)
    together = fl.dpa_sgd("complete", period=1, batch_size=1, lr=0.1)
    done = run(points(VALUES, each=1), quadratic(), together, rounds=1, evaluate=["test"])
    assert done.history.last("consensus") == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("name", [*GRAPHS, "one-peer-exponential"])
def test_every_topology_is_drawn(name: str) -> None:
    """Also where some workers were never seen."""
    graph = topology(name, "uniform" if name in GRAPHS else "metropolis").sized(16).graph
    assert graph.is_connected
    values = np.arange(16) / 16
    values[3] = np.nan
    assert len(draw_graph(graph, values).axes[0].collections[-1].get_offsets()) == 16
    assert len(draw_graph(graph, np.full(16, np.nan)).axes) == 2
