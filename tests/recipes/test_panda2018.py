import numpy as np

from fedloom.recipes.panda2018 import PANDA2018, published, series1, series2
from fedloom.recipes.part import Found
from fedloom.recipes.series import Kept


def test_the_fourteen_runs_as_they_were_published() -> None:
    every = series1()
    assert len(every) == len(published()) == len({s.name for s in every}) == 14
    e = every[6].experiment
    assert (e.model, e.fraction, e.epochs, e.weighting) == ("2nn", 0.2, 10, "training-accuracy")
    assert (e.batch_size, e.lr, e.decay, e.rounds, e.validation) == (50, 0.1, 0.99, 100, 10_000)
    assert every[13].experiment.clients == 1


def test_the_table_shows_published_and_ours() -> None:
    curves = {f"{seed} validation_accuracy": [0.1, 0.95 + 0.01 * seed, 0.94] for seed in range(3)}
    name = series1()[0].name
    kept = Kept(name, {"round": [0.0, 1.0, 2.0], **curves}, {"device": "A", "seconds": 1, "runs": 3})
    text = PANDA2018.part("runs").text(Found(series={name: kept}))
    assert "In 1 of 1 runs every seed is above the published number" in text
    assert "| 2nn | 100 | 0.1 | 10 | data | 93.79% (25) | 96.00% ± 2.48 | 95.00% – 97.00% | 1 |" in text
    assert "| cnn | 1 | 1 | 1 | data | 99.18% (5) | – | – | – |" in text
    assert "3 runs in 0.0 minutes on A" in PANDA2018.introduction(Found(series={name: kept}))


def test_the_fair_test_pairs_seeds() -> None:
    rng, found = np.random.default_rng(0), {}
    luck = rng.normal(0, 0.01, 20)
    for series in series2():
        gain = 0.002 if series.name == "fair-shards-uniform" else 0.0
        noise = rng.normal(0, 1e-4, 20)
        columns = {f"{s} test_accuracy": [0.1] + 4 * [0.9 + luck[s] + gain + noise[s]] for s in range(20)}
        found[series.name] = Kept(series.name, {"round": [0.0, 5.0, 10.0, 15.0, 20.0], **columns}, {})
    part = PANDA2018.part("fair")
    text = part.text(Found(series=found))
    assert "two shards each: all the same +0.20 [+0.1" in text
    assert len(series2()) == 16
    [picture] = part.pictures(Found(series=found))
    assert len(picture.figure.axes[0].get_yticks()) == 12


def test_nothing_recorded_is_nothing_said() -> None:
    for name in PANDA2018.parts:
        part = PANDA2018.part(name)
        assert part.text(Found()) == ""
        assert not list(part.pictures(Found()))
