"""PyTorch modules: the same numbers as PyTorch itself."""

import copy
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from user_models import LR, close, drawn, federated, stepped

import fedloom as fl
from fedloom.errors import ArgumentError, FedloomWarning
from fedloom.tasks import Task, Variables

torch = pytest.importorskip("torch")
pytest.importorskip("torchax")
nn, functional = torch.nn, torch.nn.functional

BATCHES = drawn((6, 6))
QUICK = {"xla_backend_optimization_level": 0}  # to compile


@pytest.fixture
def module() -> Any:
    """A convolution, two kinds of norm with running statistics, pooling and a dense layer; always the same weights."""
    torch.manual_seed(1)
    norms = nn.InstanceNorm2d(4, affine=True, track_running_stats=True), nn.Tanh(), nn.BatchNorm2d(4)
    ends = nn.MaxPool2d(2, stride=1), nn.Flatten(), nn.Linear(16, 3)
    return nn.Sequential(nn.Conv2d(1, 4, 3, stride=2, padding=1, bias=False), *norms, *ends)


def task_of(module: Any, **options: Any) -> Task:
    return fl.tasks.from_torch(module, inputs=(1, 6, 6), **options)


def trained(module: Any, batches: Any) -> Any:
    """A copy after PyTorch's own steps."""
    own = copy.deepcopy(module).train()
    optimizer = torch.optim.SGD(own.parameters(), lr=LR)
    for batch in batches:
        optimizer.zero_grad()
        outputs = own(torch.from_numpy(batch["x"]).reshape(-1, 1, 6, 6))
        functional.cross_entropy(outputs, torch.from_numpy(batch["y"]).long()).backward()
        optimizer.step()
    return own


def same(found: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    """Two modules' parameters and buffers."""
    mine, other = found.state_dict(), wanted.state_dict()
    assert mine.keys() == other.keys()
    for name, values in other.items():
        assert mine[name].dtype == values.dtype
        close(mine[name], values, tolerance)


def test_an_epoch_is_that_of_pytorch_with_running_statistics(module: Any) -> None:
    wanted, before = trained(module, BATCHES), copy.deepcopy(module.state_dict())
    module.eval()
    with pytest.warns(FedloomWarning, match="Sequential is in eval mode as a whole, and is trained in training mode"):
        task = task_of(module)
    assert task.give_back is not None
    assert task.give_back(stepped(task, BATCHES)) is module
    same(module, wanted)
    still = [name for name, values in module.state_dict().items() if (before[name] - values).abs().max() < 1e-3]
    assert still == ["1.num_batches_tracked"]  # which PyTorch does not count for each example's own norm
    assert int(module[3].num_batches_tracked) == 3
    assert not any(part.training for part in module.modules())  # as the user left it


def test_a_round_of_one_client_is_a_step_of_pytorch_and_the_module_is_saved_and_goes_on(
    module: Any, tmp_path: Path
) -> None:
    task, batch, wanted = task_of(module), BATCHES[0], trained(module, BATCHES[:1])
    assert task.give_back is not None
    data = federated(batch["x"], batch["y"])
    run = fl.run(
        data, task, fl.fedavg(fraction=1, batch_size=None, lr=LR), rounds=1, evaluate=["test"],
        directory=tmp_path / "run",
    )  # fmt: skip
    same(task.give_back(run.variables), wanted)
    torch.save(module.state_dict(), tmp_path / "module.pt")
    again = copy.deepcopy(module)
    for p in module.parameters():
        p.data.zero_()
    again.load_state_dict(torch.load(tmp_path / "module.pt"))
    begun = task_of(again).init(jax.random.key(0))
    jax.tree.map(np.testing.assert_array_equal, begun, jax.tree.map(np.asarray, run.variables))
    same(task.give_back(fl.load(tmp_path / "run").variables), again, 0)
    with torch.no_grad():
        found = again.eval()(torch.from_numpy(batch["x"]).reshape(-1, 1, 6, 6)).argmax(1).numpy()
    assert run.history.last("test_accuracy") == pytest.approx((found == batch["y"]).mean())


def test_statistics_that_are_every_clients_own_never_reach_the_server(module: Any) -> None:
    task, batch = task_of(module), BATCHES[0]
    begun = task.init(jax.random.key(0))
    data = federated(batch["x"], batch["y"], clients=2)
    run = fl.run(data, task, fl.fedbn("state, 3", fraction=1, batch_size=None), rounds=1, evaluate=["train"])
    moved = {
        name
        for part in ("params", "state")
        for name, values in getattr(begun, part).items()
        if not np.array_equal(values, getattr(run.variables, part)[name])
    }
    assert moved == {"0.weight", "1.weight", "1.bias", "6.weight", "6.bias"}


def test_variables_of_another_module(module: Any) -> None:
    task = task_of(module)
    begun = task.init(jax.random.key(0))
    assert task.give_back is not None
    with pytest.raises(ArgumentError, match=r"with params.6.bias of shape \(3,\), but is of shape \(2,\)"):
        task.give_back(Variables({**begun.params, "6.bias": np.zeros(2)}, begun.state))
    with pytest.raises(ArgumentError, match=r"with params.0.weight of shape \(4, 1, 3, 3\), but is without"):
        task.give_back(Variables({}, {}))


class Texts(nn.Module):  # type: ignore[misc, name-defined]
    """Embedding, tensors made on the way, LSTM, GRU, attention, dropout, a frozen layer, tied weights, two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.lstm = nn.LSTM(4, 4, batch_first=True)
        self.attention = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
        self.gru = nn.GRU(4, 4, batch_first=True)
        self.dropout = nn.Dropout(0.5)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.output = nn.Linear(4, 7, bias=False)
        self.output.weight = self.embedding.weight
        self.scale = torch.linspace(1, 2, 4)  # neither a parameter nor a buffer

    def forward(self, x: Any) -> Any:
        h = self.embedding(x.long()) + torch.arange(x.shape[1]).unsqueeze(1) / 10
        start = torch.zeros(1, len(x), 4)
        h, _ = self.lstm(h * self.scale, (start, start))
        h = self.dropout(self.attention(h))
        return self.output(self.gru(h)[0][:, -1]), {"other": self.frozen(h[:, 0])}


def test_text_dropout_frozen_and_tied_weights_and_several_outputs() -> None:
    torch.manual_seed(2)
    module, rng = Texts(), np.random.default_rng(0)
    entropy = fl.tasks.objective("cross_entropy").loss
    both = lambda outputs, batch: entropy(outputs[0], batch) + outputs[1]["other"].sum(1)  # noqa: E731
    task = fl.tasks.from_torch(module, both)
    batch = {"x": rng.integers(0, 7, (6, 5)).astype(np.int32), "y": rng.integers(0, 3, 6).astype(np.int32)}
    begun = task.init(jax.random.key(0))
    assert sum(values.size == 28 for values in begun.params.values()) == 1  # tied
    assert set(begun.state) == {"frozen.weight", "frozen.bias"}
    train = lambda params, key: task.loss(Variables(params, begun.state), batch, key)  # noqa: E731

    @partial(jax.jit, compiler_options=QUICK)
    def every(keys: Any) -> Any:
        slope, state = jax.grad(lambda params: _mean(train(params, keys[0])), has_aux=True)(begun.params)
        return task.metrics(begun, batch)["loss"], [train(begun.params, key)[0] for key in keys], slope, state

    measured, (one, again, other), slope, state = every([jax.random.key(k) for k in (1, 1, 2)])
    with torch.no_grad():
        module.eval()
        wanted = jax.tree.map(lambda t: t.numpy(), module(torch.from_numpy(batch["x"])), is_leaf=torch.is_tensor)
    close(measured, both(jax.tree.map(jnp.asarray, wanted), batch))  # without dropout
    np.testing.assert_allclose(one, again, rtol=1e-6)
    assert not np.allclose(one, other)
    assert all(np.abs(g).max() > 0 for g in slope.values())
    jax.tree.map(np.testing.assert_array_equal, state, begun.state)


def _mean(found: tuple[Any, Any]) -> tuple[Any, Any]:
    return found[0].mean(), found[1]


class Does(nn.Module):  # type: ignore[misc, name-defined]
    """A dense layer, and something of one's own."""

    def __init__(self, what: Any) -> None:
        super().__init__()
        self.dense, self.what = nn.Linear(4, 3), what

    def forward(self, x: Any) -> Any:
        return self.what(self.dense(x))


@pytest.mark.parametrize(
    ("what", "why"),
    [
        (lambda x: functional.adaptive_max_pool1d(x[:, None], 1)[:, 0], "aten::adaptive_max_pool"),
        (lambda x: x[x > 0], "boolean indices must be concrete"),
        (lambda x: torch.nonzero(x).float(), "concrete value is expected"),
        (lambda x: x if x.sum() > 0 else -x, "concrete value is expected"),
    ],
)
def test_what_cannot_be_compiled_is_named_with_a_way_out(what: Any, why: str) -> None:
    task = fl.tasks.from_torch(Does(what))
    assert task.outputs is not None
    with pytest.raises(ArgumentError, match=rf"module must be made of .* \(TorchClient\), but is not: .*{why}"):
        jax.eval_shape(task.outputs, task.init(jax.random.key(0)), jnp.ones((2, 4)))


def test_noise_that_a_module_draws_itself_comes_from_the_key() -> None:
    task = fl.tasks.from_torch(Does(lambda x: x + torch.randn(3)), "squared_error")
    begun, batch = task.init(jax.random.key(0)), {"x": np.ones((1, 4), np.float32), "y": np.zeros((1, 3))}
    found = jax.jit(lambda key: task.loss(begun, batch, key)[0])
    one, again, other = (float(found(jax.random.key(k))[0]) for k in (1, 1, 2))
    assert one == again != other


def test_modules_that_cannot_be_used(module: Any) -> None:
    with pytest.raises(ArgumentError, match=r"module must be a torch\.nn\.Module, but is 3"):
        fl.tasks.from_torch(3)
    with pytest.raises(ArgumentError, match="module must be one with parameters that require a gradient"):
        fl.tasks.from_torch(nn.Linear(2, 2).requires_grad_(False))
    with pytest.raises(ArgumentError, match=r"a shape that examples of shape \(5,\) can take, but is \(1, 6, 6\)"):
        data = federated(np.ones((4, 5), np.float32), np.zeros(4, np.int32))
        fl.run(data, task_of(module), fl.fedavg(fraction=1), rounds=1)


class Transformer(nn.Module):
    """A parameter of its own and a dense layer stand before the embedding; it may make its tokens whole itself."""

    def __init__(self, long: bool) -> None:
        super().__init__()
        self.position, self.long = nn.Parameter(torch.randn(5, 4)), long
        self.before, self.embedding, self.output = nn.Linear(4, 4), nn.Embedding(201, 4), nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        h = self.embedding(x.long() if self.long else x) + self.position
        return self.output(self.before(h).mean(1))


def eager(module: Any, x: np.ndarray, y: np.ndarray, steps: int = 1) -> Any:
    """A copy after PyTorch's own steps, its parts in the modes in which they are."""
    own = copy.deepcopy(module)
    optimizer = torch.optim.SGD([p for p in own.parameters() if p.requires_grad], lr=LR)
    for _ in range(steps):
        optimizer.zero_grad()
        functional.cross_entropy(own(torch.from_numpy(x)), torch.from_numpy(y).long()).backward()
        optimizer.step()
    return own


def compiled(module: Any, x: np.ndarray, y: np.ndarray, steps: int = 1, **options: Any) -> Any:
    """A copy after as many rounds of one client with one batch, from a data set that holds x as it is given."""
    own = copy.deepcopy(module)
    task = fl.tasks.from_torch(own, **options)
    algorithm = fl.fedavg(fraction=1, local=fl.local.sgd(lr=LR, batch_size=None))
    run = fl.run(federated(x, y), task, algorithm, rounds=steps, evaluate=["train"])
    return task.give_back(run.variables)


@pytest.mark.parametrize("long", [False, True])
def test_tokens_of_any_type_are_integers_wherever_the_embedding_stands(long: bool) -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    tokens, y = rng.integers(0, 201, (6, 5)), rng.integers(0, 3, 6).astype(np.int32)
    module = Transformer(long)
    wanted = eager(module, tokens, y)
    for kind in (np.uint8, np.int64):
        same(compiled(module, tokens.astype(kind), y), wanted)


def test_a_model_that_needs_floats_gets_integers_as_floats_of_the_same_value() -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 4, (6, 1, 3, 3)), rng.integers(0, 3, 6).astype(np.int32)
    module = nn.Sequential(nn.Conv2d(1, 2, 2), nn.Flatten(), nn.Linear(8, 3))
    data = x.astype(np.uint8).reshape(6, 9)  # no image
    same(compiled(module, data, y, inputs=(1, 3, 3)), eager(module, x.astype(np.float32), y))
    flat = nn.Linear(9, 3)
    same(compiled(flat, data, y), eager(flat, x.reshape(6, 9).astype(np.float32), y))


def test_an_embedding_of_floats_is_refused() -> None:
    data = federated(np.full((4, 5), 0.5, np.float32), np.zeros(4, np.int32))
    with pytest.raises(ArgumentError, match="indices must have an integer type"):
        fl.run(data, fl.tasks.from_torch(Transformer(False)), fl.fedavg(fraction=1), rounds=1, evaluate=["train"])


def test_parts_in_eval_mode_and_frozen_weights_stay_as_they_are() -> None:
    torch.manual_seed(0)
    x, y = drawn((4,))[0]["x"] + 3, drawn((4,))[0]["y"]
    module = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 3))
    for part in module[2], module[3]:
        part.eval()
    module[1].requires_grad_(False)
    found = compiled(module, x, y, steps=2)
    same(found, eager(module, x, y, steps=2))
    assert not found[2].running_mean.any()
    assert found[0].running_mean.all()
    assert [part.training for part in found] == [True, True, False, False, True]


class Counting(nn.Module):
    """Buffers that are assigned anew, one of them whole; the outputs depend on them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.tensor(0))
        self.register_buffer("mean", torch.zeros(4))
        self.output, self.last = nn.Linear(4, 3), None

    def forward(self, x: Any) -> Any:
        if self.training:
            self.calls = self.calls + 1
            self.mean = 0.5 * self.mean + 0.5 * x.detach().mean(0)
        self.last = x  # kept to be looked at
        return self.output(x - self.mean)


def test_buffers_that_are_assigned_are_read_back() -> None:
    torch.manual_seed(0)
    x, y = drawn((4,))[0]["x"], drawn((4,))[0]["y"]
    module = Counting()
    found = compiled(module, x, y, steps=3)
    assert int(found.calls) == 3
    same(found, eager(module, x, y, steps=3))
    assert found.last is None


@pytest.mark.parametrize("first", [0, torch.zeros(4)])
def test_what_is_assigned_and_is_no_buffer_is_refused(first: Any) -> None:
    class Sums(nn.Linear):  # type: ignore[misc]
        total = None

        def forward(self, x: Any) -> Any:
            self.total = self.total + x.sum(0)
            return super().forward(x)

    module = Sums(4, 3)
    module.total = first
    task = fl.tasks.from_torch(module)
    with pytest.raises(
        ArgumentError, match=r"register_buffer\('total', …\)\), but is one whose Sums assigns to self.total"
    ):
        task.outputs(task.init(jax.random.key(0)), np.ones((2, 4), np.float32))
    assert module.total is first
