import numpy as np
import pytest

from fedloom.data import Dataset, describe, mnist, picture, shakespeare
from fedloom.data.description import gini
from fedloom.data.partition import iid, natural, shards
from fedloom.data.split import naive, stratified


def test_shards_of_mnist() -> None:
    found = describe(mnist().partition(shards(100, 2))).summary()
    assert found["clients"] == 100
    assert found["examples"] == {"train": 60_000, "test": 10_000}
    assert (found["size_min"], found["size_median"], found["size_max"], found["size_gini"]) == (600, 600.0, 600, 0.0)
    assert found["label_entropy_mean"] < 1.1
    assert found["label_entropy_of_all"] == pytest.approx(3.3199, abs=1e-4)


def test_counts_are_by_client_and_class() -> None:
    y = np.array([0, 0, 1, 2, 2, 2])
    data = Dataset("toy", {"x": np.zeros((6, 1)), "y": y}, 3, np.arange(6), users=np.array([0, 1, 1, 0, 0, 0]),
                   user_names=["a", "b"], class_names=["p", "q", "r"]).partition(natural())  # fmt: skip
    about = describe(data)
    assert about.counts is not None
    assert about.counts.tolist() == [[1, 0, 3], [1, 1, 0]]
    assert about.entropies is not None
    assert about.entropies.tolist() == pytest.approx([0.8112781, 1.0])


def test_gini_by_pairs() -> None:
    sizes = np.random.default_rng(0).integers(1, 100, 30)
    pairs = np.abs(sizes[:, None] - sizes).sum() / (2 * 30 * sizes.sum())
    assert gini(sizes) == pytest.approx(pairs)


def test_notes_of_source_partition_and_split_are_told() -> None:
    y = np.zeros(40, np.int32)
    data = Dataset("toy", {"x": np.zeros((40, 1)), "y": y}, 1, np.arange(40), users=np.arange(40) // 10,
                   user_names=list("abcd"), note="read well")  # fmt: skip
    found = describe(data.partition(natural(), naive(0.25, 0.25)))
    assert (
        found.note == "read well; 4 users with 10 examples; 2 clients have nothing to train on and only test the model"
    )
    assert found.parts == {"train": (20, 0), "validation": (0, 10), "test": (0, 10)}


@pytest.mark.parametrize("clients", [7, 70])
def test_pictures_draw_every_client(clients: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("p") / "a.png"
    figure = picture(mnist().partition(iid(clients), stratified(0.2, 0)), file)
    left, right = figure.axes
    if clients == 7:
        assert len(left.collections[0].get_offsets()) == 70  # a circle for each client and digit
    else:
        assert len(left.patches) == 700  # a piece of a bar for each
        assert left.patches[0].get_height() > 0
    assert sum(bar.get_height() for bar in right.patches) == clients
    assert file.read_bytes().startswith(b"\x89PNG")


def test_a_picture_of_text_shows_sizes() -> None:
    left, right = picture(shakespeare().partition(natural())).axes
    assert left.lines[0].get_ydata()[:2].tolist() == [1199, 836]
    assert sum(bar.get_height() for bar in right.patches) == 1216
