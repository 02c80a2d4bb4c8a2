import numpy as np
import pytest
from broadcasts import in_either_order, near, of, told

import fedloom as fl
from fedloom.clients import SklearnClient
from fedloom.errors import ArgumentError

pytest.importorskip("sklearn")
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier

LOGISTIC = SGDClassifier(loss="log_loss", penalty=None)
NETWORK = MLPClassifier((4,), solver="sgd", momentum=0.0, alpha=0.0, activation="tanh", random_state=0)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def test_a_linear_model_begins_at_zero() -> None:
    assert {n: (w.shape, float(np.abs(w).max())) for n, w in SklearnClient(LOGISTIC, {}, features=4, classes=3)
            .weights().items()} == {"coef_": ((3, 4), 0.0), "intercept_": ((3,), 0.0)}  # fmt: skip
    assert SklearnClient(SGDRegressor(), {}, features=4).weights()["coef_"].tolist() == [0.0] * 4


def test_a_linear_model_takes_a_gradient_step_for_each_example_and_class(generated) -> None:
    data = generated([7])
    examples = of(data)
    client = SklearnClient(LOGISTIC, examples, features=4, classes=3)
    broadcast = told(client.weights(), epochs=2, batch_size=1)
    w, b = np.zeros((3, 4)), np.zeros(3)
    for [row] in broadcast.batches(7):  # each class against the others: w ← w - η (σ(w·x + b) - y) x
        x, y = examples["train"]["x"][row], np.arange(3) == examples["train"]["y"][row]
        off = sigmoid(w @ x + b) - y
        w, b = w - 0.1 * off[:, None] * x, b - 0.1 * off
    near(client.fit(broadcast).weights, {"coef_": w, "intercept_": b}, 1e-6)


def test_a_regression_takes_gradient_steps() -> None:
    x, y = np.array([[1.0, 2.0]], np.float32), np.array([3.0], np.float32)
    client = SklearnClient(SGDRegressor(penalty=None), {"train": {"x": x, "y": y}}, features=2)
    after = client.fit(told(client.weights(), batch_size=1)).weights
    near(after, {"coef_": 0.1 * 3 * x[0], "intercept_": np.array([0.3])}, 1e-6)
    assert client.evaluate(told({"coef_": np.ones(2), "intercept_": np.ones(1)}), "train") == {
        "loss": 1.0, "error": 1.0, "count": 1.0}  # fmt: skip


def test_a_perceptron_takes_a_gradient_step_for_the_batch(generated) -> None:
    data = generated([6])
    examples = of(data)
    x, y = examples["train"]["x"], np.eye(3)[examples["train"]["y"]]
    client = SklearnClient(NETWORK, examples, features=4, classes=3)
    w = {n: a.astype(np.float64) for n, a in client.weights().items()}
    hidden = np.tanh(x @ w["coefs_0"] + w["intercepts_0"])
    logits = hidden @ w["coefs_1"] + w["intercepts_1"]
    off = (np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True) - y) / 6
    back = (off @ w["coefs_1"].T) * (1 - hidden**2)
    slope = {"coefs_0": x.T @ back, "coefs_1": hidden.T @ off, "intercepts_0": back.sum(0), "intercepts_1": off.sum(0)}
    for lr in (0.5, 0.01):  # the learning rate is the round's
        after = client.fit(told(w, lr=lr, batch_size=None)).weights
        near(after, {n: w[n] - lr * slope[n] for n in w}, 1e-6)


@pytest.mark.parametrize("solver", ["adam", "sgd"])
def test_nothing_is_remembered_from_another_client_or_round(generated, solver: str) -> None:
    data = generated([8, 6])
    network = MLPClassifier((4,), solver=solver, batch_size=2, random_state=0)
    in_either_order(lambda mine: SklearnClient(network, mine, features=4, classes=3), of(data, 0), of(data, 1))


def test_examples_of_a_batch_are_in_an_order_that_comes_from_the_key(generated) -> None:
    data = generated([9, 7])
    in_either_order(lambda mine: SklearnClient(LOGISTIC, mine, features=4, classes=3), of(data, 0), of(data, 1))


@pytest.mark.parametrize("estimator", [LOGISTIC, NETWORK, SGDClassifier(loss="hinge")], ids=lambda e: type(e).__name__)
def test_a_client_may_lack_classes(estimator) -> None:
    x = np.ones((3, 2), np.float32)
    client = SklearnClient(estimator, {"train": {"x": x, "y": np.array([1, 1, 1])}}, features=2, classes=3)
    answer = client.fit(told(client.weights(), lr=0.5, epochs=20))
    found = client.evaluate(told(answer.weights), "train")
    assert (found["accuracy"], found["count"], answer.examples) == (3.0, 3.0, 3)


def test_two_classes_are_one_line() -> None:
    x, y = np.array([[1.0], [-1.0]], np.float32), np.array([1, 0])
    client = SklearnClient(LOGISTIC, {"train": {"x": x, "y": y}}, features=1, classes=2)
    after = client.fit(told(client.weights(), batch_size=1)).weights  # ½ η for each, and the second undoes b
    near(after, {"coef_": np.array([[0.1]]), "intercept_": np.zeros(1)}, 1e-7)
    found = client.evaluate(told({"coef_": np.array([[2.0]]), "intercept_": np.zeros(1)}), "train")
    assert found == pytest.approx({"loss": 2 * np.log1p(np.exp(-2)), "accuracy": 2.0, "count": 2.0}, rel=1e-6)


def test_without_probabilities_the_loss_is_how_many_are_wrong() -> None:
    examples = {"test": {"x": np.array([[1.0], [2.0]]), "y": np.array([1, 0])}}
    client = SklearnClient(SGDClassifier(loss="hinge"), examples, features=1, classes=2)
    weights = {"coef_": np.ones((1, 1)), "intercept_": np.zeros(1)}
    assert client.evaluate(told(weights), "test") == {"loss": 1.0, "accuracy": 1.0, "count": 2.0}


def test_pixels_are_between_0_and_1() -> None:
    examples = {"train": {"x": np.full((1, 2, 2), 255, np.uint8), "y": np.array([1.0])}}
    client = SklearnClient(SGDRegressor(penalty=None), examples, features=4)
    near(client.fit(told(client.weights())).weights, {"coef_": np.full(4, 0.1), "intercept_": np.array([0.1])}, 1e-6)


def test_a_fitted_estimator_goes_on_and_the_users_stays_as_it_is() -> None:
    mine = SGDRegressor(penalty=None).fit([[1.0], [2.0]], [1.0, 2.0])
    before = mine.coef_.copy()
    client = SklearnClient(mine, {"train": {"x": np.ones((1, 1)), "y": np.ones(1)}}, features=1)
    near(client.weights(), {"coef_": before}, 1e-6)
    client.fit(told(client.weights()))
    assert np.array_equal(mine.coef_, before)


def test_an_estimator_with_the_trained_weights_is_given_back() -> None:
    task = fl.clients.task(SklearnClient, SGDRegressor(), features=2)
    variables = fl.tasks.Variables({"coef_": np.array([1.0, 2.0]), "intercept_": np.ones(1)}, {})
    assert task.give_back(variables).predict([[1.0, 1.0]]).tolist() == [4.0]


@pytest.mark.parametrize(
    ("estimator", "told"),
    [(DecisionTreeClassifier(), "estimator must be one with partial_fit, but is 'DecisionTreeClassifier'"),
     (MLPClassifier(solver="lbfgs"), "estimator must be one with partial_fit"),
     (GaussianNB(), "estimator must be one with a learning rate"),
     (SGDClassifier(average=True), "estimator must be one with average=False")],
)  # fmt: skip
def test_what_cannot_be_trained_so_is_told(estimator, told: str) -> None:
    with pytest.raises(ArgumentError, match=told):
        SklearnClient(estimator, {}, features=2, classes=2)
