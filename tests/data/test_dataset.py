from dataclasses import replace

import numpy as np
import pytest

from fedloom.data import Dataset, mnist
from fedloom.data.partition import Partition, affinity, dirichlet, iid, natural, noisy, power, shards
from fedloom.data.split import Split, naive, stratified, temporal
from fedloom.errors import ArgumentError, DataError


def test_hold_out_is_random_disjoint_and_seeded() -> None:
    data = mnist().hold_out(10_000, seed=1)
    assert (len(data.train), len(data.validation), len(data.test)) == (50_000, 10_000, 10_000)
    assert not np.intersect1d(data.train, data.validation).size
    assert np.union1d(data.train, data.validation).tolist() == list(range(60_000))
    assert (data.validation == mnist().hold_out(10_000, seed=1).validation).all()
    assert (data.validation != mnist().hold_out(10_000, seed=2).validation).any()


def test_hold_out_of_everything_is_refused() -> None:
    with pytest.raises(ArgumentError, match="validation must be between 0 and 59,999, but is 60000"):
        mnist().hold_out(60_000)


def test_validation_examples_belong_to_no_client() -> None:
    data = mnist().hold_out(10_000).partition(iid(100))
    assert data.clients["train"].size.tolist() == [500] * 100
    assert not np.intersect1d(data.index, data.central["validation"]).size


def test_images_stay_bytes() -> None:
    assert mnist().partition(iid(10)).columns["x"].dtype == np.uint8


def test_repr_counts() -> None:
    assert repr(Dataset("a", {"x": np.zeros(2), "y": np.zeros(2, int)}, 1, np.arange(2))) == (
        "Dataset('a': 2 train, 0 validation, 0 test examples)"
    )


def owned(n: int = 200, test: int = 0) -> Dataset:
    rng = np.random.default_rng(0)
    y, users = rng.integers(0, 5, n + test), rng.integers(0, 6, n + test)
    columns = {"x": rng.normal(size=(n + test, 3)).astype(np.float32), "y": y}
    return Dataset("toy", columns, 5, np.arange(n), test=n + np.arange(test), users=users, user_names=list("abcdef"))


@pytest.mark.parametrize(
    "split", [None, naive(), naive(shuffle=True), stratified(), stratified(by_label=True), temporal()]
)
@pytest.mark.parametrize("scheme", [natural(), iid(7), shards(5), dirichlet(6, 0.4), affinity(4), noisy(power(6), 0.1)])
def test_every_example_is_in_one_part_of_one_client_or_nobodys(scheme: Partition, split: Split | None) -> None:
    data = owned().partition(scheme, split, seed=4)
    held = [data.examples(part, k) for part in data.splits if part in data.clients for k in range(len(data))]
    everything = np.concatenate([*held, *data.central.values()])
    assert sorted(everything.tolist()) == list(range(200))
    assert sum(len(data.examples(part)) for part in data.splits) == 200
    if split is not None:
        sizes = [len(data.examples(part)) for part in ("train", "validation", "test")]
        clients = np.bincount(np.concatenate([np.full(len(data.examples(p, k)), k) for p in data.clients
                                              for k in range(len(data))])) if split.by_client else [200]  # fmt: skip
        assert sizes == split.shares.sizes(np.array(clients)).sum(axis=1).tolist()
    again = owned().partition(scheme, split, seed=4)
    assert again.fingerprint == data.fingerprint
    assert owned().partition(scheme, split, seed=5).index.tolist() != data.index.tolist() or scheme.name == "natural"


def test_the_global_user_is_the_union_of_everyones_parts() -> None:
    data = owned().partition(natural(), stratified())
    whole = data.union()
    assert len(whole) == 1
    for part in ("train", "validation", "test"):
        parts = np.concatenate([data.examples(part, client) for client in range(6)])
        assert sorted(whole.examples(part)) == sorted(parts)
        share = len(parts) / 200
        for client in range(6):  # in proportion, to the rounding
            mine = sum(len(data.examples(p, client)) for p in ("train", "validation", "test"))
            assert abs(len(data.examples(part, client)) - share * mine) < 1.5


def test_a_users_test_examples_are_its_own() -> None:
    data = owned(test=60).partition(natural())
    source = owned(test=60)
    assert source.users is not None
    for client in range(6):
        assert data.examples("test", client).tolist() == [i for i in range(200, 260) if source.users[i] == client]
    assert len(data.central["test"]) == 0
    with pytest.raises(DataError, match=r"the test examples of toy/iid are nobody's"):
        owned(test=60).partition(iid(3)).examples("test", 0)


def test_strangers_test_examples_are_nobodys() -> None:
    source = owned(test=60)
    assert source.users is not None
    source = replace(source, users=np.where(np.arange(260) < 200, source.users % 3, source.users))
    data = source.partition(natural())
    assert len(data) == 3
    assert len(data.examples("test")) == 60
    assert sum(len(data.examples("test", k)) for k in range(3)) == 60 - len(data.central["test"]) > 0


def test_a_test_set_of_its_own_is_kept_or_pooled() -> None:
    with pytest.raises(DataError, match=r"toy has a test set of its own \(60 examples\): split with test=0, or pool"):
        owned(test=60).partition(natural(), stratified())
    assert len(owned(test=60).partition(iid(2), stratified(0.2, 0)).examples("test")) == 60
    assert len(owned(test=60).pool().partition(iid(2), stratified()).examples("test")) == 52


def test_clients_who_only_test_are_nobody() -> None:
    data = owned().partition(natural(), naive(0.2, 0.4))
    assert len(data) < 6
    assert len(data.examples("train")) == 80
    assert len(data.examples("test")) == 80
    assert "nothing to train on and only test the model" in data.note


def test_constant_and_missing_numbers_standardise_to_zero() -> None:
    x = np.array([[1, 5, np.nan], [3, 5, np.nan], [np.nan, 5, 2.0]], np.float32)
    data = Dataset("toy", {"x": x, "y": np.zeros(3, int)}, 1, np.arange(3), standardise=np.ones(3, bool))
    columns, features = data.standardised(np.array([0, 1]))
    assert columns["x"].tolist() == [[-1, 0, 0], [1, 0, 0], [0, 0, 2]]
    assert (features.mean.tolist(), features.scale.tolist()) == ([2, 5, 0], [1, 1, 1])
    assert features.names == ["feature 0", "feature 1", "feature 2"]


def test_nothing_to_deal() -> None:
    with pytest.raises(DataError, match="toy has no training examples to deal"):
        Dataset("toy", {"x": np.zeros((0, 1)), "y": np.zeros(0, int)}, 1, np.arange(0)).partition(iid(1))


N = 12
GOOD = {"x": np.zeros((N, 2), np.float32), "y": np.arange(N) % 3}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": np.arange(N) < 5}, "train of toy must be an array of example numbers, but is bool of"),
        ({"train": list(range(N))}, "train of toy must be an array of example numbers, but is list"),
        ({"train": np.zeros(3, int)}, "train of toy has an example that is there twice"),
        ({"train": np.arange(-1, 5)}, "train of toy names examples -1 to 4, but there are 0 to 11"),
        ({"test": np.arange(3)}, "test of toy has an example that is there twice, or in another part too"),
        ({"columns": {**GOOD, "y": GOOD["y"].astype("U1")}}, "the labels y of toy must be class numbers, .* <U1"),
        ({"columns": {**GOOD, "y": [0] * N}}, "toy must have a column y, .* but has list"),
        ({"columns": {"y": GOOD["y"]}}, "toy must have a column x, .* but has NoneType"),
        ({"columns": {**GOOD, "y": GOOD["y"][:5]}}, "the columns of toy differ in length"),
        ({"users": np.zeros(N)}, "the users of toy must be 12 whole numbers, but are float64"),
        ({"users": np.arange(N)}, "the users of toy must be below 1, the number of their names"),
    ],
)
def test_what_is_no_data_set(changes: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Dataset(**{"name": "toy", "columns": GOOD, "classes": 3, "train": np.arange(N), "user_names": ["a"], **changes})  # type: ignore[arg-type]


def test_a_validation_set_is_not_thrown_away() -> None:
    data = Dataset("toy", GOOD, 3, np.arange(8), validation=np.arange(8, 12))
    with pytest.raises(DataError, match="toy has a validation set of its own"):
        data.hold_out(2)


@pytest.mark.parametrize("seed", [-1, 1.5, None])
def test_bad_seeds(seed: object) -> None:
    with pytest.raises(ArgumentError, match="seed must be"):
        owned().partition(iid(3), seed=seed)  # type: ignore[arg-type]


def test_partitions_and_splits_are_what_they_are() -> None:
    with pytest.raises(ArgumentError, match="scheme must be a partition such as"):
        owned().partition("iid")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="split must be a split such as"):
        owned().partition(iid(3), 0.2)  # type: ignore[arg-type]


def test_large_numbers_keep_their_differences() -> None:
    x = 1_700_000_000_000.0 + 1000 * np.arange(200.0)[:, None]  # milliseconds since 1970, a second apart
    data = Dataset("toy", {"x": x, "y": np.arange(200) % 2}, 2, np.arange(200), standardise=np.array([True]))
    found = data.partition(iid(2)).columns["x"]
    assert len(np.unique(found)) == 200
    assert found.std() == pytest.approx(1.0, abs=1e-6)
