import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedloom.kernels.processor as processor
from fedloom.kernels.processor import reason
from fedloom.tasks import from_torch
from fedloom.tasks.task import Variables

torch = pytest.importorskip("torch")
pytest.importorskip("torchax")

X = np.random.default_rng(0).integers(0, 9, (3, 5))
KINDS = {
    "lstm": (torch.nn.LSTM, {"num_layers": 2, "bidirectional": True}),
    "projected": (torch.nn.LSTM, {"proj_size": 2, "bias": False}),
    "gru": (torch.nn.GRU, {"num_layers": 2}),
    "rnn": (torch.nn.RNN, {"nonlinearity": "relu", "bidirectional": True}),
}


class Reader(torch.nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.table = torch.nn.Embedding(9, 3)
        self.layer = kind(3, 4, batch_first=True, **options)
        self.output = torch.nn.Linear((options.get("proj_size") or 4) * (2 if "bidirectional" in options else 1), 9)

    def forward(self, x):
        return self.output(self.layer(self.table(x))[0])


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_and_gradients_are_pytorchs(kind: str) -> None:
    torch.manual_seed(0)
    made, options = KINDS[kind]
    module, y = Reader(made, **options), np.roll(X, -1, axis=1).astype(np.int32)
    task = from_torch(module, loss="next_token")
    model = task.init(jax.random.key(0))

    def total(params):
        batch = {"x": jnp.asarray(X), "y": jnp.asarray(y)}
        return task.loss(Variables(params, model.state), batch, jax.random.key(1))[0].mean()

    loss = torch.nn.functional.cross_entropy(module(torch.tensor(X)).reshape(-1, 9), torch.tensor(y).long().ravel())
    loss.backward()
    found, gradient = jax.jit(jax.value_and_grad(total))(model.params)
    assert float(found) == pytest.approx(float(loss.detach()), rel=1e-6)
    for name, parameter in module.named_parameters():
        np.testing.assert_allclose(gradient[name], parameter.grad.numpy(), atol=1e-6)


def test_dropout_between_layers_is_for_training_alone() -> None:
    torch.manual_seed(0)
    task = from_torch(Reader(torch.nn.GRU, num_layers=2, dropout=0.5), loss="next_token")
    model, batch = task.init(jax.random.key(0)), {"x": jnp.asarray(X), "y": jnp.asarray(X, jnp.int32)}
    one, same, other = (task.loss(model, batch, jax.random.key(i))[0] for i in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).any()


def test_the_program_does_not_grow_with_the_sequence() -> None:
    task = from_torch(Reader(torch.nn.LSTM), loss="next_token")
    model = task.init(jax.random.key(0))
    sizes = [len(jax.make_jaxpr(task.outputs)(model, jnp.zeros((2, n), jnp.int32)).eqns) for n in (3, 30)]
    assert sizes[0] == sizes[1]


@pytest.mark.skipif(bool(reason()), reason="kernels cannot be used")
@pytest.mark.parametrize(("kind", "uses"), [("lstm", True), ("gru", True), ("projected", False), ("rnn", False)])
@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_lstms_and_grus_have_kernels(kind: str, uses: bool) -> None:
    made, options = KINDS[kind]
    task = from_torch(Reader(made, **options), loss="next_token")
    program = str(jax.make_jaxpr(task.outputs)(task.init(jax.random.key(0)), jnp.asarray(X)))
    assert ("ffi_call" in program) == uses


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_without_kernels_the_results_are_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, options = KINDS[kind]
    task = from_torch(Reader(made, **options), loss="next_token")
    model = task.init(jax.random.key(0))
    fast = task.outputs(model, jnp.asarray(X))
    monkeypatch.setattr(processor, "width", lambda: 0)
    np.testing.assert_allclose(task.outputs(model, jnp.asarray(X)), fast, atol=1e-6)


class Listener(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv1d(2, 8, 3, padding=1)
        self.layer = torch.nn.LSTM(8, 5, batch_first=True)
        self.output = torch.nn.Linear(5, 3)

    def forward(self, x):
        return self.output(self.layer(torch.relu(self.convolution(x)).transpose(1, 2))[1][0][0])


def test_a_convolution_before_an_lstm() -> None:
    torch.manual_seed(0)
    module, x = Listener(), np.random.default_rng(0).standard_normal((16, 2, 8), np.float32)
    task = from_torch(module)
    model = task.init(jax.random.key(0))
    program = str(jax.make_jaxpr(task.outputs)(model, jnp.asarray(x)))
    assert program.count("ffi_call") >= (0 if reason() else 3)
    wanted = module(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(task.outputs(model, jnp.asarray(x)), wanted, atol=1e-6)
