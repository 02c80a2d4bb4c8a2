import sys

import numpy as np
import pytest
from broadcasts import compiled_round, first_round, in_either_order, near, of, same, told

import fedloom as fl
from fedloom.clients import TorchClient
from fedloom.errors import ArgumentError, MissingExtra

torch = pytest.importorskip("torch")
nn = torch.nn


def perceptron(*more) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), *more, nn.Tanh(), nn.Linear(5, 3))


def adam(parameters, lr):
    return torch.optim.Adam(parameters, lr)


def test_it_learns_what_a_loop_by_hand_does(generated) -> None:
    data, module = generated([11]), perceptron()
    examples = of(data)
    client = TorchClient(module, examples)
    broadcast = told(client.weights(), epochs=2)
    x, y = torch.from_numpy(examples["train"]["x"]), torch.from_numpy(examples["train"]["y"]).long()
    answer = client.fit(broadcast)
    for rows in broadcast.batches(11):
        loss = nn.functional.cross_entropy(module(x[np.array(rows)]), y[np.array(rows)])
        gradients = torch.autograd.grad(loss, list(module.parameters()))
        with torch.no_grad():
            for weight, gradient in zip(module.parameters(), gradients, strict=True):
                weight.sub_(gradient, alpha=0.1)
    same(answer.weights, {n: p.detach().numpy() for n, p in module.named_parameters()})
    assert answer.examples == 11


def test_it_learns_what_the_compiled_engine_does(generated) -> None:
    pytest.importorskip("torchax")
    data, module = generated([12]), perceptron(nn.BatchNorm1d(5))
    client = TorchClient(module, of(data))
    found = client.fit(first_round(data, client.weights())).weights
    wanted = compiled_round(data, fl.tasks.from_torch(module))
    near(found, {n: wanted[n] for n in found})


def test_the_users_module_stays_as_it_is(generated) -> None:
    module = perceptron()
    before = {n: p.detach().numpy().copy() for n, p in module.named_parameters()}
    client = TorchClient(module, of(generated([4])))
    client.fit(told(client.weights()))
    same(before, {n: p.detach().numpy() for n, p in module.named_parameters()})


def test_nothing_is_remembered_from_another_client_or_round(generated) -> None:
    data = generated([8, 6])
    module = perceptron(nn.BatchNorm1d(5, momentum=None), nn.Dropout(0.5))  # averages over all batches it has counted
    in_either_order(lambda mine: TorchClient(module, mine, optimizer=adam), of(data, 0), of(data, 1))


def test_frozen_parameters_and_whole_numbers_stay(generated) -> None:
    module = perceptron(nn.BatchNorm1d(5))
    module[0].weight.requires_grad_(False)
    client = TorchClient(module, of(generated([8])))
    answer = client.fit(told(client.weights()))
    assert np.array_equal(answer.weights["0.weight"], module[0].weight.numpy())
    assert "1.num_batches_tracked" not in answer.weights
    assert not np.array_equal(answer.weights["1.running_mean"], np.zeros(5))


def test_it_judges_by_sums_as_at_rest() -> None:
    module = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Dropout(0.9))
    module[0].weight.data = torch.eye(2)
    x, y = np.array([[3, 0], [0, 1], [1, 0]], np.float32), np.array([0, 1, 1])
    client = TorchClient(module, {"test": {"x": x, "y": y}})
    found = client.evaluate(told(client.weights()), "test")
    assert found.keys() == {"loss", "accuracy", "count"}
    assert (found["accuracy"], found["count"]) == (2, 3)
    assert found["loss"] == pytest.approx(sum(np.log1p(np.exp(-d)) for d in (3, 1, -1)), rel=1e-5)


def test_numbers_are_predicted_with_a_loss_of_ones_own() -> None:
    x, y = np.array([[1.0], [2.0]], np.float32), np.array([3.0, 5.0], np.float32)
    squared = lambda guess, y: ((guess[:, 0] - y) ** 2).mean()  # noqa: E731
    client = TorchClient(nn.Linear(1, 1), {"train": {"x": x, "y": y}}, loss=squared)
    zero = {"weight": np.zeros((1, 1), np.float32), "bias": np.zeros(1, np.float32)}
    after = client.fit(told(zero, batch_size=None)).weights
    assert after["bias"] == pytest.approx(0.1 * 2 * (3 + 5) / 2)
    assert after["weight"] == pytest.approx(0.1 * 2 * (3 + 10) / 2)
    assert client.evaluate(told(zero), "train") == {"loss": 34.0, "count": 2.0}


def test_images_take_the_shape_that_the_module_wants() -> None:
    net = nn.Sequential(nn.Conv2d(3, 2, 2), nn.Flatten(), nn.Linear(2 * 9, 3))
    examples = {"train": {"x": np.full((5, 4, 4, 3), 255, np.uint8), "y": np.arange(5) % 3}}
    client = TorchClient(net, examples, inputs=(3, 4, 4))
    assert client.fit(told(client.weights())).examples == 5
    with pytest.raises(ArgumentError, match=r"inputs must be a shape that examples of shape \(4, 4, 3\) can take"):
        TorchClient(net, examples, inputs=(1, 4, 4)).fit(told(client.weights()))


def test_the_trained_module_is_given_back() -> None:
    task = fl.clients.task(TorchClient, nn.Linear(2, 1))
    variables = fl.tasks.Variables({"weight": np.full((1, 2), 2, np.float32), "bias": np.ones(1, np.float32)}, {})
    assert task.give_back(variables)(torch.ones(1, 2)).item() == 5


def test_without_pytorch_it_says_how_to_get_it(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"this needs torch: pip install 'fedloom\[torch\]'"):
        TorchClient(None, {})


def test_integers_go_to_an_embedding_as_they_are_and_to_a_dense_layer_as_floats() -> None:
    tokens, y = np.array([[3, 200], [7, 0], [1, 1]], np.int16), np.array([0, 1, 2])
    net = nn.Sequential(nn.Embedding(201, 4), nn.Flatten(), nn.Linear(8, 3))
    client = TorchClient(net, {"train": {"x": tokens, "y": y}})
    wanted = nn.functional.cross_entropy(net(torch.from_numpy(tokens).long()), torch.from_numpy(y))
    assert client.evaluate(told(client.weights()), "train")["loss"] == pytest.approx(3 * wanted.item(), rel=1e-5)
    dense = nn.Linear(2, 3)
    client = TorchClient(dense, {"train": {"x": tokens, "y": y}})
    wanted = nn.functional.cross_entropy(dense(torch.from_numpy(tokens).float()), torch.from_numpy(y))
    assert client.evaluate(told(client.weights()), "train")["loss"] == pytest.approx(3 * wanted.item(), rel=1e-5)


def test_parts_in_eval_mode_stay_so() -> None:
    net = nn.Sequential(nn.BatchNorm1d(2), nn.BatchNorm1d(2), nn.Linear(2, 3))
    net[0].eval()
    x = np.array([[3, 2], [7, 0], [1, 1]], np.float32)
    client = TorchClient(net, {"train": {"x": x, "y": np.array([0, 1, 2])}})
    after = client.fit(told(client.weights(), batch_size=None)).weights
    assert not after["0.running_mean"].any()
    assert after["1.running_mean"].all()
