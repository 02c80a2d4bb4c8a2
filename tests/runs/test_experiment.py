import dataclasses
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.combine import clipped, mean
from fedloom.engines import Compiled, ProcessEngine, RayEngine, Reference
from fedloom.errors import ArgumentError, FedloomError, UnknownName
from fedloom.mixing import graph
from fedloom.runs import Experiment
from fedloom.runs.methods import FIXED, METHODS, OPTIONS
from fedloom.runs.prepare import federated


@given(
    model=st.sampled_from(["2nn", "cnn", "logistic"]),
    clients=st.integers(1, 10_000),
    batch_size=st.none() | st.integers(1, 1000),
    lr=st.floats(1e-9, 1e9),
    target=st.none() | st.floats(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_toml_and_back(**fields: Any) -> None:
    experiment = Experiment(**fields)
    assert Experiment.from_toml(experiment.to_toml()) == experiment


def test_the_toml_is_complete_and_says_what_fields_mean() -> None:
    text = Experiment().to_toml()
    for f in dataclasses.fields(Experiment):
        assert f"\n{f.name} = " in "\n" + text
        assert f.metadata["help"] in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fractoin = 0.1", "a field of an experiment must be one of .*fraction.*, but is 'fractoin'"),
        ("fraction = 1.5", "fraction must be between 0 and 1, but is 1.5"),
        ("clients = 2.5", "clients must be a whole number, but is 2.5"),
        ('lr = "fast"', "lr must be a number, but is 'fast'"),
        ("lr = true", "lr must be a number, but is True"),
        ("model = 2", "model must be a text, but is 2"),
        (
            'model = "vgg"',
            "model must be one of 2nn, cifar-cnn, cnn, cnn-bn, cnn-plain, .*, lstm-plain, but is 'vgg'",
        ),
        ('partition = "sorted"', "partition must be one of .*auto, dirichlet, .*, shards, but is 'sorted'"),
        ('split = "half"', "split must be one of auto, by-label, naive, none, shuffled, stratified, temporal"),
        ('data = ""', "data must be a name, a file or a folder"),
        (
            'target = "none"\nmonitor = "test_loss"',
            "monitor must be left alone without a target, patience or keep best",
        ),
        ('colours = "cmyk"', "colours must be one of grey, rgb"),
        ('unreadable = "ignore"', "unreadable must be one of error, skip"),
        ("batch_size = 0", "batch_size must be at least 1"),
        ('batch_size = "some"', "batch_size must be a whole number or all, but is 'some'"),
        ("every = 0", "every must be at least 1"),
        ("rounds = 0", "rounds must be at least 1"),
        ("seed = -1", "seed must be between 0 and 4294967295"),
        ("lr = ", "the experiment file must be TOML"),
        ('algorithm = "fedsgd"\nepochs = 5', "epochs must be 1 with algorithm fedsgd, but is 5"),
    ],
)
def test_bad_files(text: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Experiment.from_toml(text)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="a TOML file that exists"):
        Experiment.read(tmp_path / "none.toml")


def test_an_unknown_field_in_python() -> None:
    with pytest.raises(UnknownName):
        Experiment().replace(learning_rate=0.1)


def test_fedsgd_is_one_epoch_of_everything() -> None:
    local = Experiment(algorithm="fedsgd").build_algorithm().local
    assert (local.batches.epochs, local.batches.batch_size) == (1, None)


def test_it_builds_what_it_says() -> None:
    experiment = Experiment(partition="shards", clients=50, validation=10_000, server="adam", server_lr=0.01)
    data = federated(experiment)
    assert (len(data), data.splits) == (50, ("train", "validation", "test"))
    assert data.clients["train"].size.tolist() == [1000] * 50
    assert experiment.build_algorithm().describe()["server"] == "adam"
    assert experiment.build_task(data).name == "2nn"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'algorithm = "local"\nserver = "adam"',
            "server must be left alone with algorithm local, which has no use for it",
        ),
        ('algorithm = "local"\nweighting = "uniform"', "weighting must be left alone with algorithm local"),
        ('moment = "before"', "moment must be left alone with the weighting size, which has no use for it"),
        ("temperature = 2.0", "temperature must be left alone with the weighting size"),
        ('exclude_by = "training-loss"', "exclude_by must be left alone with the weighting size"),
        (
            'exclude = 1.0\nexclude_by = "size"',
            "exclude_by must be one of training-accuracy, training-loss, validation-",
        ),
        ("exclude = 0", "exclude must be above 0 deviations, but is 0"),
        ('algorithm = "local"\nexclude = 1.0', "exclude must be left alone with algorithm local"),
        ('algorithm = "personalised"\nserver_momentum = 0.5', "server_momentum must be left alone with algorithm pers"),
        ('algorithm = "central"\nweighting = "uniform"', "weighting must be left alone with algorithm central"),
        ('latency = "0.1"', "latency must be left alone without a clock"),
        ('compute = "0.1"\nlost = 0.1', "deadline must be given where workers are lost"),
        ('algorithm = "dpa-sgd"\ncompute = 0.1\ndeadline = 1.0', "deadline must be left alone unless workers are lost"),
        ('algorithm = "dpa-sgd"\nneighbours = "push"', "neighbours must be one of metropolis, optimised, uniform, but"),
        (
            'algorithm = "dpa-sgd"\ntopology_seed = 3',
            "topology_seed must be left alone with the topology ring, which has",
        ),
        (
            'topology = "regular:4"\ntopology_seed = 3',
            "must be left alone with algorithm fedavg, which has no use for it",
        ),
        (
            'algorithm = "dpa-sgd"\ntopology = "sparse"\ntopology_seed = -1',
            "topology_seed must be at least 0, but is -1",
        ),
        (
            'algorithm = "dpa-sgd"\ntopology = "random-pairs"\nneighbours = "uniform"',
            "neighbours must be left alone with the topology random-pairs, which has no use for it, but is 'uniform'",
        ),
        (
            'algorithm = "push-sum"\ntopology = "random-pairs"',
            "topology must be one that stays, or one-peer-exponential",
        ),
        ('algorithm = "dpa-sgd-mtl"\ntopology = "random-pairs"', "topology must be one whose neighbours stay the same"),
        ('compute = "soon"', "compute must be a number, lognormal:"),
        (
            'algorithm = "dpa-sgd"\ncompute = "0.1"\nserver_bandwidth = 1e6',
            "server_bandwidth must be left alone with algorithm dpa-sgd, which has no server",
        ),
        ("lambda1 = 0.1", "lambda1 must be left alone with algorithm fedavg"),
        ('algorithm = "fedavg-mtl"\nlambda2 = -1.0', "lambda2 must be at least 0, but is -1.0"),
        ('algorithm = "dpa-sgd-mtl"\nepochs = 2', "epochs must be left alone with algorithm dpa-sgd-mtl"),
        ('combine = "mode"', "combine must be one of mean, median, trimmed, but is 'mode'"),
        ("trim = 0.2", "trim must be left alone with combine mean, which has no use for it"),
        ('combine = "trimmed"\ntrim = 0.5', r"trim must be at least 0 and below 0\.5, but is 0\.5"),
        ("clip = 0", "clip must be above 0, but is 0"),
        ('combine = "median"\nweighting = "uniform"', "weighting must be left alone with combine median"),
        ('algorithm = "dpa-sgd"\ncombine = "median"', "combine must be left alone with algorithm dpa-sgd"),
        ('algorithm = "dpa-sgd"\nclip = 1.0', "clip must be left alone with algorithm dpa-sgd"),
        ('algorithm = "qfedavg"\ncombine = "median"', "combine must be left alone with algorithm qfedavg"),
        ('inputs = "bytes"', "inputs must be one of centred, standard, unit, but is 'bytes'"),
    ],
)
def test_options_that_would_do_nothing_or_mean_nothing(text: str, message: str) -> None:
    with pytest.raises(FedloomError, match=message):
        Experiment.from_toml(text)


def test_weightings_and_personal_models_by_name() -> None:
    e = Experiment(
        weighting="training-loss", temperature=0.5, moment="before", exclude=2.0, exclude_by="training-accuracy"
    )
    assert e.build_algorithm().describe() == {
        "fraction": 0.1, "epochs": 1, "batch_size": 10, "lr": 0.1, "decay": 1.0, "optimizer": "sgd",
        "server": "average", "weighting": "softmax of train_loss_before", "temperature": 0.5, "exclude": 2.0,
        "exclude_by": "train_accuracy_before", "server_lr": 1.0, "server_momentum": 0.9,
    }  # fmt: skip
    own = Experiment(algorithm="personalised", weighting="validation-accuracy").build_algorithm().describe()
    assert (own["mixing"], own["weighting"]) == ("personal", "validation_accuracy_after")
    assert Experiment(algorithm="local").build_algorithm().describe()["mixing"] == "local only"


def test_combiners_by_name() -> None:
    told = Experiment(combine="trimmed", trim=0.2, clip=3.0, exclude=2.0).build_algorithm().describe()
    assert (told["combine"], told["trim"], told["clip"], told["exclude"]) == ("trimmed", 0.2, 3.0, 2.0)
    assert Experiment().build_algorithm().combiner == mean
    assert Experiment(algorithm="qfedavg", clip=1.0).build_algorithm().combiner == clipped(1.0)


@pytest.mark.parametrize(("fraction", "epochs", "rounds"), [(0.1, 1, 10), (0.1, 2, 5), (1.0, 4, 0.25)])
def test_the_rate_on_the_union_decays_over_the_same_work(fraction: float, epochs: int, rounds: float) -> None:
    e = Experiment(fraction=fraction, epochs=epochs, decay=0.9)
    central = e.centrally(20, per_round=1 / rounds)  # so many rounds are a pass
    for done in (0, 1, 4, 8):  # passes
        rate = central.build_algorithm().local.batches.rate(jnp.int32(done))
        assert float(rate) == pytest.approx(0.1 * 0.9 ** (rounds * done), rel=1e-5)
    assert Experiment(fraction=0.1).centrally(3, per_round=0.1).decay == 1
    fast = Experiment(decay=0.5).centrally(3, per_round=1e-6).build_algorithm()
    assert float(fast.local.batches.rate(jnp.int32(1))) == 0


def test_the_union_needs_no_weighting() -> None:
    e = Experiment(weighting="training-loss", temperature=2.0, moment="before", exclude=1.0, exclude_by="training-loss")
    assert e.centrally(3).build_algorithm().describe()["weighting"] == "size"


def test_every_algorithm_is_built_and_uses_its_options() -> None:
    """What an algorithm is said to use changes it; what it is not said to use is refused."""
    other = {"fraction": 0.5, "epochs": 3, "weighting": "uniform", "exclude": 2.0, "server": "momentum",
             "server_lr": 0.5, "mu": 0.7, "private": "hidden1", "head_epochs": 4, "clusters": 3, "q": 2.0, "peers": 5,
             "topology": "line", "topology_seed": 3, "neighbours": "uniform", "period": 7, "lambda1": 0.2,
             "lambda2": 0.3, "lambda3": 0.4, "combine": "median", "clip": 0.5,
             "lambda4": 0.5, "eta": 0.6, "upper": "hidden2", "server_momentum": 0.5, "selection": "once"}  # fmt: skip
    assert set(other) == set(OPTIONS)
    for name, (used, _) in METHODS.items():
        base = {"server": "momentum", "topology": "regular", "upper": "hidden1"}  # for momentum, seed and lambda4
        plain = Experiment(algorithm=name, **{option: value for option, value in base.items() if option in used})
        for option in OPTIONS:
            if option == "server" and option in used:
                continue  # the server has momentum already
            if option in FIXED.get(name, {}):
                with pytest.raises(ArgumentError, match=f"{option} must be 1 with algorithm {name}"):
                    plain.replace(**{option: other[option]})
            elif option in used:
                assert plain.replace(**{option: other[option]}).build_algorithm().describe() != (
                    plain.build_algorithm().describe()), (name, option)  # fmt: skip
            else:
                with pytest.raises(ArgumentError, match=f"{option} must be left alone with algorithm {name}"):
                    Experiment(algorithm=name, **{option: other[option]})


def test_numbers_of_the_clock_may_be_numbers() -> None:
    assert Experiment.from_toml("compute = 0.1\nlatency = 0.0\nbandwidth = 1e6") == Experiment(
        compute="0.1", latency="0", bandwidth="1000000")  # fmt: skip
    assert Experiment(compute="0.1", latency="0.0").latency == "0"


def test_the_engine_is_built_as_the_experiment_says() -> None:
    assert isinstance(Experiment().build_engine(), Compiled)
    engine = Experiment(engine="ray", actors=3, pieces=5, address="auto").build_engine()
    assert isinstance(engine, RayEngine)
    assert (engine.workers, engine.pieces, engine.address) == (3, 5, "auto")
    processes = Experiment(engine="processes", actors=2).build_engine()
    assert isinstance(processes, ProcessEngine)
    assert processes.workers == 2
    assert isinstance(Experiment(engine="reference").build_engine(), Reference)
    with pytest.raises(ArgumentError, match="address must be left alone with the engine processes"):
        Experiment(engine="processes", address="auto")
    with pytest.raises(ArgumentError, match="actors must be left alone with the engine compiled"):
        Experiment(actors=3)
    with pytest.raises(
        ArgumentError, match="engine must be one of compiled, processes, ray, reference, but is 'spark'"
    ):
        Experiment(engine="spark")


@pytest.mark.parametrize("algorithm", ["dpa-sgd", "dpa-sgd-mtl", "push-sum"])
def test_a_random_topology_has_a_seed_of_its_own(algorithm: str) -> None:
    e = Experiment(algorithm=algorithm, topology="regular:4")

    def heard(e: Experiment) -> list[int]:
        return e.build_algorithm().for_clients(20).routing.mixer.index[0].ravel().tolist()

    def along(seed: int) -> list[int]:
        return graph("regular:4", 20, seed=seed).heard.nonzero()[1].tolist()

    for seed in (0, 7):
        others = np.reshape(heard(e.replace(topology_seed=seed)), (20, 5))[:, 1:].ravel().tolist()
        assert others == along(seed)
    assert heard(e.replace(seed=7)) == heard(e) != heard(e.replace(topology_seed=7))
