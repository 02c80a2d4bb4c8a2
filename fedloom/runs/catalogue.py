"""Catalogue: the names by which the command line and experiment files know things."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import fedloom.data.vocabulary as vocabulary
from fedloom.algorithms import SERVERS
from fedloom.combine import Combiner, Weighting, by_accuracy, by_loss, by_size, mean, median, trimmed, uniform
from fedloom.data import Dataset, FederatedData, cifar10, emnist, fashion_mnist, mnist, mnist_writers, shakespeare
from fedloom.data.inputs import white
from fedloom.data.sources.emnist import SPLITS as EMNIST
from fedloom.data.target import predicts_numbers, target_scale
from fedloom.errors import DataError, require
from fedloom.selection import SELECTIONS
from fedloom.tasks import Task, char_lstm, cifar_cnn, cnn, linear, logistic, two_nn, two_nn_regression

DATA: dict[str, Callable[[Path | None], Dataset]] = {
    "mnist": lambda folder: mnist(),  # noqa: ARG005
    "mnist-writers": mnist_writers,
    "fashion-mnist": fashion_mnist,
    **{f"emnist-{split}": partial(emnist, split) for split in EMNIST},
    "cifar10": cifar10,
    "shakespeare": lambda folder: shakespeare(),  # noqa: ARG005
}


def _features(data: FederatedData) -> int:
    return int(np.prod(data.columns["x"].shape[1:]))


def _judged_once(model: str, data: FederatedData) -> FederatedData:
    if data.columns["y"].ndim != 1:
        raise DataError(f"the model {model} tells one class an example, but {data.name} has one a character: use lstm")
    if predicts_numbers(data):
        need = "so use 2nn or linear"
        raise DataError(f"the model {model} tells classes apart, but {data.name} has numbers to be predicted, {need}")
    return data


def _scale_of_one(model: str, data: FederatedData) -> tuple[float, float]:
    if data.columns["y"].ndim != 1:
        raise DataError(f"the model {model} predicts one number for an example, but {data.name} has several")
    return target_scale(data)


def _linear(data: FederatedData) -> Task:
    if not predicts_numbers(data):
        raise DataError(
            f"the model linear predicts numbers, but {data.name} has classes: use logistic, or --task regression"
        )
    return linear(_features(data), *_scale_of_one("linear", data))


def _two_nn(data: FederatedData) -> Task:
    if predicts_numbers(data):
        mean, scale = _scale_of_one("2nn", data)
        return two_nn_regression(_features(data), mean=mean, scale=scale)
    return two_nn(_features(_judged_once("2nn", data)), classes=data.classes)


def _logistic(data: FederatedData) -> Task:
    return logistic(_features(_judged_once("logistic", data)), classes=data.classes)


def _cnn(data: FederatedData, normalised: bool = False, plain: bool = False) -> Task:
    shape = _judged_once("cnn", data).columns["x"].shape[1:]
    if len(shape) not in (2, 3) or shape[0] != shape[1] or shape[0] % 4:
        raise DataError(
            f"the model cnn needs square images whose side is a multiple of 4, but an example of {data.name} has the "
            f"shape {shape}"
        )
    return cnn(shape[0], shape[2] if len(shape) == 3 else 1, data.classes, normalised, plain)


def _lstm(data: FederatedData, plain: bool = False) -> Task:
    if data.columns["y"].ndim == 1 and data.classes != vocabulary.SIZE:
        raise DataError(f"the model lstm predicts the next character of a text, but {data.name} holds no text")
    return char_lstm(data.classes, plain=plain)


def _cifar_cnn(data: FederatedData) -> Task:
    shape = _judged_once("cifar-cnn", data).columns["x"].shape[1:]
    if shape != (32, 32, 3):
        raise DataError(f"the model cifar-cnn crops images of 32 × 32 × 3, but an example of {data.name} has {shape}")
    if white(data.columns["x"].dtype) != 255:
        raise DataError(
            f"the model cifar-cnn changes the brightness of pixels from 0 to 255, but {data.name} holds {data.inputs}: "
            "store its images as uint8"
        )
    return cifar_cnn(data.classes)


MODELS: dict[str, Callable[[FederatedData], Task]] = {
    "2nn": _two_nn,
    "cnn": _cnn,
    "cnn-bn": partial(_cnn, normalised=True),
    "cnn-plain": partial(_cnn, plain=True),
    "cifar-cnn": _cifar_cnn,
    "linear": _linear,
    "logistic": _logistic,
    "lstm": _lstm,
    "lstm-plain": partial(_lstm, plain=True),
}
"""Model → what builds it for the shapes and classes of some data."""


def _standard(data: FederatedData) -> tuple[float, float]:
    x = data.columns["x"][data.examples("train")]
    mean, deviation = (round(float(a) / white(x.dtype), 4) for a in (x.mean(dtype=np.float64), x.std(dtype=np.float64)))
    require(deviation > 0, "inputs", f"unit or centred: all pixels of {data.name} are the same", "standard")
    return mean, deviation


INPUTS: dict[str, Callable[[FederatedData], tuple[float, float]]] = {
    "unit": lambda data: (0.0, 1.0),  # noqa: ARG005
    "centred": lambda data: (0.5, 0.5),  # noqa: ARG005
    "standard": _standard,
}
"""How pixels become numbers → what is taken off them, and by what the rest is divided."""

WEIGHTINGS: dict[str, Callable[[str, float], Weighting]] = {
    "size": lambda moment, temperature: by_size,  # noqa: ARG005
    "uniform": lambda moment, temperature: uniform,  # noqa: ARG005
    "validation-accuracy": lambda moment, temperature: by_accuracy("validation", moment),  # noqa: ARG005
    "training-accuracy": lambda moment, temperature: by_accuracy("training", moment),  # noqa: ARG005
    "validation-loss": lambda moment, temperature: by_loss(temperature, "validation", moment),
    "training-loss": lambda moment, temperature: by_loss(temperature, "training", moment),
}
"""Weighting → what builds it, from the moment at which metrics are read and the temperature."""

COMBINERS: dict[str, Callable[[float], Combiner]] = {
    "mean": lambda trim: mean,  # noqa: ARG005
    "median": lambda trim: median(),  # noqa: ARG005
    "trimmed": trimmed,
}
"""Combiner → what builds it, from the share that is trimmed."""

LISTING: dict[str, dict[str, str]] = {
    "data": {
        "mnist": "60,000 + 10,000 handwritten digits, shipped with fedloom",
        "mnist-writers": "MNIST with the writer of each digit: 539 write the training digits, others the test digits",
        "fashion-mnist": "60,000 + 10,000 grey pictures of clothes",
        **{f"emnist-{split}": f"handwritten characters, {len(names)} classes" for split, names in EMNIST.items()},
        "cifar10": "50,000 + 10,000 colour pictures of ten things",
        "shakespeare": "all plays, shipped with fedloom: a role is a user, an example a line",
        "FILE.csv": "a CSV with --label and --user columns; also .gz, .xz, .bz2, any delimiter",
        "FOLDER": "images in a folder a class (also .tar, .zip), or LEAF's JSON files",
        "FILE.npz, FILE.h5": "arrays x, y and user; or x_train, y_train, x_test, y_test",
    },
    "partition": {
        "auto": "natural where the data knows its users, else iid",
        "natural": "every user is a client",
        "iid": "shuffle everything, deal it out evenly",
        "shards": "sort by label, cut into shards, deal --shards to each client (McMahan's non-IID)",
        "dirichlet": "of each class, clients' shares are Dirichlet(--alpha)",
        "dirichlet-balanced": "clients of equal size whose mixes of labels are Dirichlet(--alpha)",
        "lognormal": "sizes log-normal with deviation --sigma, labels IID",
        "power": "the k-th largest client has a share of k^-exponent (--exponent), labels IID",
        "labels": "every client has --labels-each classes",
        "affinity": "a share s (--affinity) is of a client's favourite class, the rest random: s + (1 - s)/C in all",
        "FILE.safetensors": "a partition saved by fedloom data partition --save",
    },
    "split": {
        "auto": "stratified where the data has no test set, else none",
        "none": "all that a client has is for training",
        "stratified": "each client's data is split in the same shares, at random",
        "by-label": "the same, keeping each client's mix of labels",
        "temporal": "each client's first examples are for training, its last for testing",
        "naive": "the data as a whole is cut, client after client as it stands",
        "shuffled": "the data as a whole is cut, shuffled",
    },
    "model": {
        "2nn": "two hidden layers of 200 ReLU units; 199,210 parameters on MNIST; also with --task regression",
        "cnn": "two 5×5 convolutions, pooling, 512 ReLU units; 1,663,370 parameters on MNIST",
        "cnn-bn": "the same with batch normalisation after each convolution",
        "cnn-plain": "cnn, with weights drawn as in TensorFlow's MNIST tutorial of 2016",
        "cifar-cnn": "TensorFlow's CIFAR-10 tutorial of 2016, with its crops, flips, brightness, contrast; 1,068,298",
        "linear": "linear regression, with --task regression",
        "logistic": "multinomial logistic regression; 7,850 parameters on MNIST",
        "lstm": "two LSTM layers of 256 units that predict the next character",
        "lstm-plain": "lstm, with weights drawn as libraries usually do, which learns more slowly",
    },
    "inputs": {
        "unit": "pixels as 0 to 1",
        "centred": "pixels as -1 to 1",
        "standard": "pixels with mean 0 and deviation 1 over everybody's training images",
    },
    "algorithm": {
        "fedavg": "clients train E epochs with batches of B, the server averages",
        "fedsgd": "one gradient step on all the cohort's examples (E = 1, B = all)",
        "fedprox": "fedavg whose clients are pulled back to the model they began with (--mu)",
        "scaffold": "fedavg whose clients correct their drift by what they know of their gradients",
        "qfedavg": "fedavg in which a client counts the more, the worse the model does for it (--q)",
        "ditto": "fedavg, and every client trains a model of its own beside it, pulled towards it (--mu)",
        "fedper": "fedavg in which some layers are every client's own (--private)",
        "fedrep": "the same; a client trains its own layers first (--head-epochs), then the shared ones",
        "fedbn": "fedavg in which the layers that normalise are every client's own, with their statistics",
        "ifca": "a few models (--clusters); every client trains the one that suits it best",
        "personalised": "every client has its own model: trains it, then averages everybody's in its own way",
        "dpa-sgd": "no server: --period steps, then everybody averages with its neighbours (--topology)",
        "dpa-sgd-mtl": "the same; everybody keeps its own output, pulled to those like it (--lambda1, --private)",
        "push-sum": "the same along a directed graph, on which one need not hear whom one tells",
        "fedavg-mtl": "a server averages all but the outputs, which are pulled to those like them",
        "local": "every client trains alone on its own data (--fraction of them a round)",
        "central": "no federation: the union of all clients' data in one place, E epochs a round",
    },
    "selection": {
        "uniform": "different clients at random, drawn anew every round (McMahan et al. 2017)",
        "fixed": "the same clients in every round",
        "size": "at random, with probability proportional to a client's number of examples",
        "round-robin": "the next clients in the order of their numbers, beginning again after the last",
        "once": "at random, but no client twice until all have been selected",
    },
    "optimizer": {
        "sgd": "plain gradient steps",
        "momentum": "with a momentum of 0.9 (Polyak 1964)",
        "adam": "Kingma and Ba 2015",
        "adagrad": "Duchi et al. 2011",
        "rmsprop": "Tieleman and Hinton 2012",
    },
    "weighting": {
        "size": "a client counts as much as it has examples (McMahan et al. 2017)",
        "uniform": "every client counts the same",
        "validation-accuracy": "as much as its model's accuracy on its validation data (Panda and Marrero 2018)",
        "training-accuracy": "as much as its model's accuracy on its training data",
        "validation-loss": "exp(-loss / temperature), of its model on its validation data",
        "training-loss": "exp(-loss / temperature), of its model on its training data",
    },
    "combine": {
        "mean": "the weighted mean of the replies (McMahan et al. 2017)",
        "median": "the median of each coordinate of the replies (Yin et al. 2018)",
        "trimmed": "the mean of each coordinate without its smallest and largest values (--trim; Yin et al. 2018)",
    },
    "server": {
        "average": "w + server_lr · mean update",
        "momentum": "the mean update with momentum",
        "adagrad": "FedAdagrad (Reddi et al. 2021)",
        "adam": "FedAdam (Reddi et al. 2021)",
        "yogi": "FedYogi (Reddi et al. 2021)",
    },
}
"""What can be named, and what each name means: `fedloom list` prints it."""

assert LISTING["server"].keys() == SERVERS.keys()
assert LISTING["selection"].keys() == SELECTIONS.keys()
assert LISTING["model"].keys() == MODELS.keys()
assert LISTING["inputs"].keys() == INPUTS.keys()
assert LISTING["weighting"].keys() == WEIGHTINGS.keys()
assert LISTING["combine"].keys() == COMBINERS.keys()
assert LISTING["data"].keys() > DATA.keys()


def is_path(kind: str, name: str) -> bool:
    """Whether a name of that kind is not in the listing and is one of a file or folder.

    >>> is_path("data", "mnist"), is_path("data", "./mnist"), is_path("data", "rows.csv")
    (False, True, True)
    """
    return name not in LISTING[kind] and (any(c in name for c in "/.\\") or Path(name).exists())
