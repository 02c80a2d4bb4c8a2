"""Attention of PyTorch, Keras and Flax as one operation: the same numbers as the libraries' own."""

import os
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from user_models import close

import fedloom as fl
from fedloom.tasks import Task, Variables, attention, forms
from fedloom.tasks.attention import calls_of_jax, operation

os.environ.setdefault("KERAS_BACKEND", "jax")

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
TOKENS = RNG.integers(1, 11, (4, 6))
TOKENS[1, 3:] = TOKENS[2, 1:] = 0
X = RNG.normal(size=(4, 6, 8)).astype(np.float32)
Y = np.array([0, 1, 2, 0])
QUICK = {"xla_backend_optimization_level": 0}

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras' variables


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The options of each attention that is computed as one operation."""
    calls: list[dict[str, Any]] = []
    rule = forms.RULES["attention"]

    def noted(op: Any, *arrays: Any) -> Any:
        calls.append({**op.params, "arrays": len(arrays)})
        return rule(op, *arrays)

    monkeypatch.setitem(forms.RULES, "attention", noted)
    return calls


def slope(task: Task, x: np.ndarray) -> tuple[Any, Any]:
    """The summed loss and its gradient."""
    variables = task.init(KEY)
    total = lambda p: task.loss(Variables(p, variables.state), {"x": x, "y": Y}, KEY)[0].sum()  # noqa: E731
    return jax.jit(jax.value_and_grad(total), compiler_options=QUICK)(variables.params)


def torch_module(kind: str) -> Any:
    torch, nn = pytest.importorskip("torch"), pytest.importorskip("torch.nn")
    pytest.importorskip("torchax")
    dot_product = torch.nn.functional.scaled_dot_product_attention

    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.out = nn.Embedding(11, 8), nn.Linear(8, 3)
            self.mha = nn.MultiheadAttention(8, 2, batch_first=True)
            self.layer = nn.TransformerEncoderLayer(8, 2, 8, dropout=0.0, batch_first=True)
            self.bias = nn.Parameter(torch.randn(6, 6))

        def forward(self, x: Any) -> Any:
            h, padding, causal = self.embedding(x), x == 0, torch.ones(6, 6, dtype=torch.bool).tril()
            heads = h.view(-1, 6, 2, 4).transpose(1, 2)
            forms = {
                "causal": lambda: dot_product(heads, heads, heads, is_causal=True).transpose(1, 2).flatten(2),
                "mask": lambda: dot_product(h, h, h, attn_mask=causal & ~padding[:, None]),
                "nothing to see": lambda: dot_product(
                    h, h, h, attn_mask=causal & (x > 0)[..., None] & (x > 5)[:, None]
                ),
                "bias": lambda: dot_product(heads, heads, heads, attn_mask=self.bias).transpose(1, 2).flatten(2),
                "scale": lambda: dot_product(h, h, h, scale=0.3),
                "layer": lambda: self.layer(h, src_key_padding_mask=padding),
                "padding": lambda: self.mha(h, h, h, key_padding_mask=padding)[0],
                "weights": lambda: h * self.mha(h, h, h)[1].sum(1)[..., None] + self.mha(h, h, h)[0],
            }
            return self.out(forms[kind]().mean(1))

    torch.manual_seed(0)
    return Module()


TORCH = {
    "causal": [(True, False, 3)],  # for each attention: whether it is causal and masked, and how many arrays it takes
    "mask": [(False, True, 4)],
    "nothing to see": [(False, True, 4)],
    "bias": [(False, True, 5)],
    "scale": [(False, False, 3)],
    "layer": [(False, True, 5)],
    "padding": [(False, True, 5)],
    "weights": [(False, False, 3), (False, False, 3)],
}


@pytest.mark.parametrize("kind", TORCH)
def test_pytorch(kind: str, found: list[dict[str, Any]]) -> None:
    module = torch_module(kind)
    torch = pytest.importorskip("torch")
    loss, gradient = slope(fl.tasks.from_torch(module), TOKENS)
    assert [(c["is_causal"], c["masked"], c["arrays"]) for c in found] == TORCH[kind]
    wanted = torch.nn.functional.cross_entropy(module(torch.tensor(TOKENS)), torch.tensor(Y), reduction="sum")
    wanted.backward()
    close(loss, wanted.detach())
    for name, p in module.named_parameters():
        close(gradient[name], np.zeros(p.shape) if p.grad is None else p.grad)
    assert not [n for part in module.modules() for n in vars(part) if n == "forward"]


def test_pytorch_with_dropout_keeps_its_path(found: list[dict[str, Any]]) -> None:
    nn = pytest.importorskip("torch.nn")
    pytest.importorskip("torchax")
    module = nn.TransformerEncoderLayer(8, 2, 8, dropout=0.5, batch_first=True)
    task = fl.tasks.from_torch(nn.Sequential(module, nn.Flatten(), nn.Linear(48, 3)))
    variables, batch = task.init(KEY), {"x": X, "y": Y}
    total = jax.jit(lambda key: task.loss(variables, batch, key)[0].sum(), compiler_options=QUICK)
    losses = [total(jax.random.key(i)) for i in range(2)]
    assert (found, float(losses[0]) != float(losses[1])) == ([], True)
    assert task.outputs is not None
    close(jax.jit(task.outputs)(variables, X), in_eval_mode(task, X))
    assert len(found) == 1  # nothing is dropped where it is measured


def in_eval_mode(task: Task, x: np.ndarray) -> Any:
    torch = pytest.importorskip("torch")
    whole = task.give_back(task.init(KEY)).eval()  # type: ignore[misc]
    with torch.no_grad():
        return whole(torch.tensor(x))


@pytest.mark.parametrize("causal", [False, True])
def test_keras(causal: bool, found: list[dict[str, Any]]) -> None:
    keras = pytest.importorskip("keras")
    if keras.backend.backend() != "jax":
        pytest.skip("keras was imported with another backend")
    keras.utils.set_random_seed(0)
    given = keras.Input((6, 8))
    layer = keras.layers.MultiHeadAttention(2, 4)
    h = layer(given, given, use_causal_mask=causal)
    model = keras.Model(given, keras.layers.Dense(3)(keras.layers.GlobalAveragePooling1D()(h)))
    task = fl.tasks.from_keras(model)
    assert task.outputs is not None
    close(jax.jit(task.outputs, compiler_options=QUICK)(task.init(KEY), X), wanted := jnp.asarray(model(X)))
    assert [c["is_causal"] or c["masked"] for c in found] == [causal]
    loss, _ = slope(task, X)
    close(loss, -jax.nn.log_softmax(wanted)[jnp.arange(4), Y].sum())


def test_linen(found: list[dict[str, Any]]) -> None:
    linen = pytest.importorskip("flax.linen")

    class Network(linen.Module):  # type: ignore[misc, name-defined]
        dropout: float = 0.0

        @linen.compact
        def __call__(self, x: Any, train: bool) -> Any:
            mask = linen.make_causal_mask(x[..., 0])
            layer = linen.MultiHeadDotProductAttention(2, dropout_rate=self.dropout, deterministic=not train)
            return linen.Dense(3)(layer(x, x, mask=mask).mean(1))

    task = fl.tasks.from_flax(Network(), inputs=(6, 8))
    variables = task.init(KEY)

    def wanted(params: Any) -> Any:
        logits = Network().apply({"params": params}, X, True)
        return -jax.nn.log_softmax(logits)[jnp.arange(4), Y].sum()

    loss, gradient = slope(task, X)
    assert [(c["masked"], c["arrays"]) for c in found] == [(True, 4)]
    expected, direction = jax.jit(jax.value_and_grad(wanted), compiler_options=QUICK)(variables.params)
    close(loss, expected)
    jax.tree.map(partial(close, tolerance=1e-4), gradient, direction)  # those of the keys' bias are zero
    found.clear()
    dropping = fl.tasks.from_flax(Network(dropout=0.5), inputs=(6, 8))
    assert np.isfinite(slope(dropping, X)[0]) and not found


def test_nnx(found: list[dict[str, Any]]) -> None:
    nnx = pytest.importorskip("flax.nnx")

    class Network(nnx.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            rngs = nnx.Rngs(0)
            self.attention = nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs)
            self.out = nnx.Linear(8, 3, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.out(self.attention(x).mean(1))

    module = Network()
    task = fl.tasks.from_flax(module)
    assert task.outputs is not None
    close(jax.jit(task.outputs, compiler_options=QUICK)(task.init(KEY), X), module(X))
    assert len(found) == 1


def test_several_attentions_side_by_side_and_a_gradient_inside_a_model() -> None:
    def each(x: Any, mask: Any) -> Any:
        x = x[None, :, None]
        return jax.nn.dot_product_attention(x, x, x, mask=mask, is_causal=True)[0, :, 0].sum()

    mask = jnp.asarray(RNG.random((1, 1, 6, 6)) < 0.7)
    model = lambda x: jax.vmap(jax.value_and_grad(each), in_axes=(0, None))(x, mask)  # noqa: E731
    wanted = jax.jit(model)(X)
    with calls_of_jax():
        program = jax.make_jaxpr(lambda x: jax.vmap(each, in_axes=(0, None))(x, mask))(X)
        jax.tree.map(close, jax.jit(lambda x: model(x))(X), wanted)
    assert [e.invars[0].aval.shape for e in program.eqns if e.primitive is operation] == [(4, 6, 1, 8)]
    assert jax.nn.dot_product_attention is attention.by_jax
    close(jax.jit(forms.fast(lambda x: jax.vmap(each, in_axes=(0, None))(x, mask)))(X), wanted[0])


def test_in_bfloat16_softmax_is_float32_and_without_a_gpu_xla_computes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "has_cuda", lambda: True)
    q = jnp.asarray(RNG.normal(size=(2, 6, 2, 8)), jnp.bfloat16)
    mask = jnp.ones((1, 1, 6, 6), bool)
    options = {"scale": 0.5, "is_causal": True, "masked": True}
    assert not attention.traces(lambda *a: attention.by_cudnn(*a, **options), q, q, q, mask)
    program = jax.make_jaxpr(lambda q: attention.fastest(q, q, q, mask, **options))(q)
    assert [str(v.aval.dtype) for e in program.eqns if e.primitive.name == "exp" for v in e.invars] == ["float32"]
