from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from fedloom.errors import ArgumentError, FedloomError, UnknownName
from fedloom.mixing import topology
from fedloom.mixing.graph import Graph, as_graph, edges, from_networkx, graph, mutual, sparse


@pytest.mark.parametrize(
    ("name", "workers", "degrees"),
    [
        ("ring", 6, {2}),
        ("line", 6, {1, 2}),
        ("star", 6, {1, 5}),
        ("complete", 6, {5}),
        ("torus", 12, {4}),
        ("hypercube", 16, {4}),
        ("exponential", 16, {4}),
        ("exponential", 6, {3}),
        ("regular", 10, {4}),
    ],
)
def test_how_many_neighbours(name: str, workers: int, degrees: set[int]) -> None:
    found = graph(name, workers)
    assert len(found) == workers and found.is_connected
    assert set(found.degrees.tolist()) == degrees
    assert found.is_mutual == (name != "exponential")


def test_neighbours_by_hand() -> None:
    assert np.argwhere(graph("torus", 9).heard[4]).ravel().tolist() == [1, 3, 5, 7]
    assert np.argwhere(graph("hypercube", 8).heard[5]).ravel().tolist() == [1, 4, 7]
    assert np.argwhere(graph("exponential", 8).heard[6]).ravel().tolist() == [0, 2, 7]


@pytest.mark.parametrize("name", ["regular", "erdos-renyi", "small-world"])
def test_random_graphs_come_from_their_seed(name: str) -> None:
    one, same, other = (graph(name, 20, seed=s).heard for s in (1, 1, 2))
    assert (one == same).all() and (one != other).any()


@pytest.mark.parametrize("sparsity", [0.3, 0.6, 0.9])
def test_sparsity_is_met(sparsity: float) -> None:
    found = sparse(40, sparsity)
    assert found.is_connected
    assert abs(1 - found.heard.sum() / (40 * 39) - sparsity) < 0.002


def test_nothing_is_sparser_than_the_ring() -> None:
    assert sparse(16, 1 - 16 / 120).heard.sum() == 32
    with pytest.raises(ArgumentError, match=r"sparsity must be at most 0\.867, which is the ring's, with 16 workers"):
        sparse(16, 0.9)


def test_edges_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("# a triangle and a tail\n0,1\n1, 2\n2,0\n2,3\n")
    found = graph(str(tmp_path / "pairs.csv"), 4)
    assert found.degrees.tolist() == [2, 2, 3, 1]
    with pytest.raises(ArgumentError, match=r"workers must be 4, which .*pairs.csv connects, but is 5"):
        graph(str(tmp_path / "pairs.csv"), 5)


@pytest.mark.parametrize(
    "content",
    [
        "source,target\n0,1\n1,2\n2,0\n2,3\n",
        "0 1\n1 2\n2 0\n2 3\n",
        "from\tto\n0\t1\n1\t2\n\n# a tail\n2\t0\n2\t3",
        '"source","target"\r\n"0","1"\r\n1,2\r\n2 , 0\r\n2,3\r\n',
        "\ufeff# source target\n0 1 {}\n1 2 {}\n2 0 {}\n2,3,{}\n",
    ],
)
def test_edges_in_several_ways(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.csv").write_text(content, encoding="utf-8")
    assert edges(tmp_path / "x.csv").heard.astype(int).tolist() == [
        [0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0],
    ]  # fmt: skip


def test_edges_that_networkx_wrote(tmp_path: Path) -> None:
    for delimiter in (" ", "\t", ","):
        nx.write_edgelist(nx.petersen_graph(), tmp_path / "x.csv", delimiter=delimiter)
        assert (edges(tmp_path / "x.csv").heard == nx.to_numpy_array(nx.petersen_graph())).all()


def test_graphs_of_networkx() -> None:
    mixed = nx.Graph([(3, 1), (1, 0), (0, 2), (2, 1)])  # workers are numbered as nodes are, in whatever order
    assert np.argwhere(from_networkx(mixed).heard[1]).ravel().tolist() == [0, 2, 3]
    named = from_networkx(nx.MultiDiGraph([("a", "b"), ("a", "b"), ("b", "c"), ("c", "a")]))
    assert named.heard.astype(int).tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0]]  # b hears a, who tells it
    assert from_networkx(nx.karate_club_graph()).name == "networkx Zachary's Karate Club"
    with pytest.raises(ArgumentError, match="nobody is its own neighbour"):
        from_networkx(nx.Graph([(0, 0), (0, 1)]))
    with pytest.raises(ArgumentError, match="topology must be a name, a CSV file of pairs, a graph or networkx's"):
        as_graph(7)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "0,0\n",
            r"line 1 of x.csv must be two different worker numbers \(nobody is its own neighbour\), but is '0,0'",
        ),
        ("0,1\n1\n", "line 2 of x.csv must be two different worker numbers, whole and from 0 on, but is '1'"),
        ("0,1,0.5\n", "line 1 of x.csv must be two worker numbers and no third column .*, but is '0,1,0.5'"),
        ("0 1 {'weight': 2}\n", "line 1 of x.csv must be two worker numbers and no third column"),
        ("a,b\n1,2\n2,3\n", "the least number in x.csv must be 0: worker numbers begin with 0, but is 1"),
        ("a,b\nc,d\n", "line 2 of x.csv must be two different worker numbers, whole and from 0 on, but is 'c,d'"),
        ("0,-1\n", "line 1 of x.csv must be two different worker numbers, whole and from 0 on"),
        ("0,,1\n", "line 1 of x.csv must be two worker numbers and no third column"),
        ("a,b\n", "at least one pair"),
        ("", "at least one pair"),
    ],
)
def test_bad_edge_lists(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "x.csv").write_text(content)
    with pytest.raises(ArgumentError, match=message):
        edges(tmp_path / "x.csv")


def test_a_graph_in_two_pieces_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"connected, .* but is 'pieces: worker 0 and 2, 3 do not both hear of"):
        mutual("pieces", 4, [(0, 1), (2, 3)]).connected()
    one_way = np.zeros((3, 3), bool)
    one_way[1, 0] = one_way[2, 1] = True
    assert not Graph("one way", one_way).is_connected


@pytest.mark.parametrize(
    ("name", "workers", "options", "message"),
    [
        ("ring", 2, {}, r"workers must be at least 3 in a ring \(2 are a line\), but is 2"),
        ("torus", 7, {}, "workers must be a product of two numbers of at least 3 for a torus, but is 7"),
        ("hypercube", 12, {}, "workers must be a power of two for a hypercube, but is 12"),
        ("regular", 7, {"degree": 3}, "degree must be below 7, and even if workers are odd in number, but is 3"),
        ("line", 1, {}, "workers must be at least 2, but is 1"),
        ("sparse", 8, {"seed": -1}, "seed must be at least 0, but is -1"),
        (
            "random-pairs",
            8,
            {},
            r"a graph must be one that stays \(this changes from round to round\), but is 'random-",
        ),
        ("matcha:ring:0.5", 8, {}, "changes from round to round"),
        ("sparse", 8, {"sparsity": 1.0}, "sparsity must be at least 0 and below 1"),
    ],
)
def test_bad_arguments(name: str, workers: int, options: dict[str, float], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        graph(name, workers, **options)


def test_an_unknown_topology_lists_the_known() -> None:
    with pytest.raises(UnknownName, match="topology must be one of complete, erdos-renyi"):
        graph("moebius", 5)


def test_too_few_connections_for_a_random_graph_are_said() -> None:
    with pytest.raises(FedloomError, match=r"none of 100 graphs of the kind Erdős–Rényi 0\.001 was connected"):
        graph("erdos-renyi", 50, share=0.001)


def test_a_file_that_has_changed_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "matcha-graph.csv"
    file.write_text("0,1\n1,2\n2,3\n3,0\n")
    assert topology(str(file)).sized(4).moved(4) == 8
    file.write_text("0,1\n1,2\n2,3\n3,0\n0,2\n1,3\n")
    assert topology(str(file)).sized(4).moved(4) == 12
