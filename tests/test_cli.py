import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hurry import hurried
from rich.console import Console
from typer.testing import CliRunner, Result

from fedloom.cli import app
from fedloom.engines.schedule import PEERS, stream
from fedloom.local.sgd import OPTIMIZERS
from fedloom.mixing import matcha
from fedloom.mixing.graph import graph
from fedloom.mixing.spread import sparsest, spread
from fedloom.version import VERSION

FAST = ["--model", "logistic", "--rounds", "2", "--target", "none"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def fedloom(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_run_prints_a_table_keeps_everything_and_refuses_another_experiment_there() -> None:
    result = fedloom("run", *FAST, "--out", "a")
    assert result.exit_code == 0
    assert "did 2 rounds" in result.stdout
    kept = {p.name for p in Path("a").iterdir()}
    assert kept >= {"experiment.toml", "history.json", "checkpoint.safetensors", "model.safetensors", "figure.png"}
    other = fedloom("run", *FAST, "--lr", "0.3", "--out", "a")
    assert other.exit_code == 2
    assert "a holds another experiment" in other.stderr


def test_without_options_it_is_the_quick_start_and_with_any_there_is_no_target() -> None:
    Path("a").mkdir()
    Path("a/experiment.toml").write_text("lr = 0.5")
    quick = fedloom("run", "--out", "a")
    assert "Quick start: fedloom run --target 0.97 --rounds 200" in quick.stderr
    assert "rounds = 100 there, 200 here, target = None there, 0.97 here" in " ".join(quick.stderr.split())
    other = fedloom("run", "--seed", "1", "--out", "a")
    assert "Quick start" not in other.stderr and "target" not in other.stderr
    for options, said in (
        (["run", "--algorithm", "fedsgd", "--batch-size", "10"], "batch_size must be all with algorithm fedsgd"),
        (["run", "--mu", "0.01"], "mu must be left alone with algorithm fedavg"),
        (["sweep", "a/experiment.toml", "--mu", "0.01"], "mu must be left alone with algorithm fedavg"),
    ):
        refused = fedloom(*options)
        assert refused.exit_code == 2 and said in " ".join(refused.stderr.split())
    Path("a/seed.toml").write_text("seed = 7")
    assert "seed must be left out of a sweep" in fedloom("sweep", "a/seed.toml", "--lr", "0.1,0.2").stderr


def test_json_is_all_there_is_on_stdout() -> None:
    result = fedloom("run", *FAST, "--json")
    told = json.loads(result.stdout)
    assert (told["round"], told["diverged"]) == (2, False)
    assert 0.5 < told["test_accuracy"] <= told["max_over_rounds_test_accuracy"]
    assert Path(told["directory"]).is_dir()


def test_quiet_is_quiet() -> None:
    result = fedloom("run", *FAST, "--quiet")
    assert (result.exit_code, result.output) == (0, "")


def test_an_experiment_file_and_options_over_it() -> None:
    Path("e.toml").write_text('model = "logistic"\nrounds = 3\nlr = 0.05\ntarget = "none"\n')
    told = json.loads(fedloom("run", "e.toml", "--rounds", "1", "--json", "--out", "a").stdout)
    assert told["round"] == 1
    assert "lr = 0.05" in Path("a/experiment.toml").read_text()


def test_resume_goes_on_to_more_rounds_and_plot_draws_several_runs() -> None:
    fedloom("run", *FAST, "--out", "a", "--quiet")
    resumed = json.loads(fedloom("resume", "a", "--rounds", "4", "--json").stdout)
    alone = json.loads(fedloom("run", *FAST, "--rounds", "4", "--out", "b", "--json").stdout)
    assert resumed["round"] == 4
    assert resumed["test_loss"] == alone["test_loss"]
    assert fedloom("plot", "a", "b", "--file", "two.svg").exit_code == 0
    assert Path("two.svg").read_text().count('<g id="axes_') == 6


def test_what_is_done_is_not_undone() -> None:
    fedloom("run", *FAST, "--out", "a", "--quiet")
    before = Path("a/experiment.toml").read_text()
    refused = fedloom("resume", "a", "--rounds", "1")
    said = "rounds must be at least 2, which are done already in a (choose another folder to begin anew), but is 1"
    assert (refused.exit_code, said in refused.stderr) == (2, True)
    assert Path("a/experiment.toml").read_text() == before
    Path("a/history.json").write_text("{")  # which is not needed to go on
    assert "rounds must be at least 2" in fedloom("resume", "a", "--rounds", "1").stderr
    assert json.loads(fedloom("resume", "a", "--rounds", "3", "--json").stdout)["round"] == 3
    fedloom("sweep", *FAST, "--lr", "0.1,0.2", "--out", "s", "--quiet")
    before = Path("s/sweep.json").read_text()
    assert "rounds must be at least 2" in fedloom("resume", "s", "--rounds", "1").stderr
    assert Path("s/sweep.json").read_text() == before
    Path("a/experiment.toml").unlink()  # the checkpoint knows it too
    every = fedloom("run", *FAST, "--rounds", "9", "--every", "2", "--out", "a")
    assert (every.exit_code, "with other settings (every = 1 there, 2 here)" in every.stderr) == (2, True)
    assert not Path("a/experiment.toml").exists()


def test_what_is_drawn_of_a_run_that_has_not_ended_is_said() -> None:
    fedloom("run", *FAST, "--rounds", "30", "--lr", "1e30", "--out", "a")
    drawn = fedloom("plot", "a", "--quiet")
    assert drawn.exit_code == 0
    assert "Warning: a is drawn as far as it got: diverged: " in drawn.stderr
    Path("s/one").mkdir(parents=True)
    Path("s/sweep.json").write_text("{}")
    Path("s/one/experiment.toml").write_text("")
    shutil.copytree("a", "s/two")
    assert "s is a sweep of 2 runs, of which 1 have begun: the others are not drawn" in fedloom("plot", "s").stderr


def test_the_version() -> None:
    assert fedloom("--version").stdout.strip() == VERSION


def test_a_run_of_python_is_not_for_the_command_line() -> None:
    Path("python").mkdir()
    Path("python/history.json").write_text("{}")
    assert "holds a run that was begun in Python" in fedloom("resume", "python").stderr


def test_out_is_a_folder() -> None:
    Path("file").write_text("")
    assert "out must be a folder, but is 'file'" in fedloom("run", *FAST, "--out", "file").stderr
    assert "out must be a folder, but is 'file'" in fedloom("sweep", *FAST, "--out", "file").stderr
    assert "the folder file/x cannot be made (Not a directory)" in fedloom("run", *FAST, "--out", "file/x").stderr


def test_sweep_runs_every_combination() -> None:
    result = fedloom("sweep", *FAST, "--lr", "0.05,0.1", "--seeds", "2", "--out", "s")
    assert result.exit_code == 0
    assert "4 experiments" in result.stdout
    assert len(list(Path("s").glob("lr=*"))) == 4
    assert Path("s/figure.png").exists()
    again = json.loads(fedloom("resume", "s", "--json").stdout)["results"]
    assert [r["label"] for r in again] == [f"lr={lr},seed={s}" for lr in (0.05, 0.1) for s in (0, 1)]
    longer = json.loads(fedloom("resume", "s", "--rounds", "3", "--json").stdout)["results"]
    assert [r["round"] for r in longer] == [3] * 4
    assert fedloom("plot", "s", "--metric", "loss", "--against", "rounds", "--file", "s.svg").exit_code == 0
    assert Path("s.svg").read_text().count("lr=0.05") == 1  # seeds are one curve


@pytest.mark.slow
def test_sweep_compares_topologies() -> None:
    Path("pairs.csv").write_text("0,1\n1,2\n2,3\n3,0\n")
    options = ["--algorithm", "dpa-sgd", "--topology", "complete,pairs.csv", "--clients", "4", "--compute", "0.1"]
    result = fedloom("sweep", *FAST, *options, "--seeds", "2", "--out", "s")
    assert result.exit_code == 0, result.stderr
    for text in ("4 experiments", "±", "clock", "topology=pairs"):
        assert text in result.stdout
    assert {folder.name for folder in Path("s").glob("*,seed=0")} == {
        "topology=complete,seed=0", "topology=pairs,seed=0",
    }  # fmt: skip
    Path("elsewhere").mkdir()
    os.chdir("elsewhere")  # the data file is found from there
    longer = json.loads(fedloom("resume", "../s", "--rounds", "3", "--json").stdout)["results"]
    assert [r["round"] for r in longer] == [3] * 4
    assert "central" in fedloom("sweep", *FAST, "--algorithm", "fedavg,central", "--out", "t").stderr


def test_list_names_everything() -> None:
    listed = json.loads(fedloom("list", "--json").stdout)
    assert set(listed) == {
        "data", "partition", "split", "model", "inputs", "algorithm", "optimizer", "weighting",
        "combine", "server", "selection"}  # fmt: skip
    assert set(listed["optimizer"]) == set(OPTIMIZERS)
    assert "shards" in fedloom("list").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["run", "--model", "vgg"],
            "model must be one of 2nn, cifar-cnn, cnn, cnn-bn, cnn-plain, linear, logistic, lstm, lstm-plain, but is",
        ),
        (["run", "--fraction", "1.5"], "fraction must be between 0 and 1, but is 1.5"),
        (["run", "--batch-size", "0"], "batch_size must be at least 1"),
        (["run", "--epochs", "0"], "epochs must be at least 1, but is 0"),
        (["run", "--clients", "70000"], "70,000 clients cannot share 60,000 training examples"),
        (["run", "missing.toml"], "the experiment must be a TOML file that exists"),
        (
            ["run", "--evaluate", "validation", "--target", "none"],
            "evaluate must be one of the parts that the data has, train and test",
        ),
        (["resume", "nowhere"], "nowhere holds no run"),
        (["plot", "nowhere"], "nowhere holds no run"),
        (["sweep", "--model", "cnn,2nn"], "model must be one value"),
        (["sweep", "--lr", "0.1,x"], "lr must be a number, but is 'x'"),
        (["sweep", "--seeds", "x"], "seeds must be a number, or numbers with commas, but is 'x'"),
        (["sweep", "--lr", "0.1,-1"], "lr must be above 0, but is -1.0"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments: list[str], message: str) -> None:
    result = fedloom(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert not Path("runs").exists()


def test_a_diverged_run_says_so() -> None:
    result = fedloom("run", *FAST, "--rounds", "30", "--lr", "1e30", "--out", "a")
    assert result.exit_code == 2
    assert "diverged" in result.stderr
    assert "with learning rate 1e+30" in result.stderr
    assert Path("a/checkpoint.safetensors").exists()


def test_debug_shows_the_error_itself() -> None:
    with pytest.raises(ValueError, match="fraction"):
        fedloom("run", "--fraction", "2", "--debug")


def test_ctrl_c_leaves_a_run_that_can_be_resumed() -> None:
    command = [sys.executable, "-m", "fedloom", "run", "--model", "logistic", "--target", "none", "--rounds", "100000"]
    shown = {**hurried(), "FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "200"}  # as on a terminal, in plain letters
    process = subprocess.Popen([*command, "--out", "a"], stderr=subprocess.PIPE, text=True, env=shown)
    assert process.stderr is not None
    assert any("test" in told and "compiling" not in told for told in process.stderr)  # rounds are under way
    os.kill(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "fedloom resume a" in told
    reached = json.loads(Path("a/history.json").read_text())["rows"][-1]["round"]
    resumed = json.loads(fedloom("resume", "a", "--rounds", str(int(reached) + 1), "--json").stdout)
    assert resumed["round"] == reached + 1


def table(path: str = "people.csv") -> str:
    rows = "".join(f"u{i % 4},{(i * 7) % 11},c{(i * 7) % 11 // 4}\n" for i in range(200))
    Path(path).write_text("who,v,class\n" + rows)
    return path


PEOPLE = ["--data", "people.csv", "--user", "who", "--label", "class"]


def test_run_on_a_csv_beside_the_union() -> None:
    table()
    how = ["--model", "logistic", "--fraction", "1", "--epochs", "2", "--decay", "0.81", "--rounds", "3"]
    result = fedloom("run", *PEOPLE, *how, "--central", "--out", "a")
    assert result.exit_code == 0
    assert tomllib.loads(Path("a/central/experiment.toml").read_text())["decay"] == pytest.approx(0.9)  # a pass is half
    assert "Test accuracy in the last round: federated" in result.stdout
    assert {"clients.png", "figure.png", "central"} <= {p.name for p in Path("a").iterdir()}
    again = json.loads(fedloom("resume", "a", "--rounds", "5", "--json").stdout)
    assert again["round"] == 5
    assert again["central"]["round"] == 10  # as many passes over everybody's data


def test_describe_prints_and_draws() -> None:
    table()
    result = fedloom("data", "describe", *PEOPLE, "--figure", "who.svg")
    assert "4" in result.stdout
    assert "label entropy" in result.stdout
    assert Path("who.svg").read_text().startswith("<?xml")
    told = json.loads(fedloom("data", "describe", *PEOPLE, "--json").stdout)
    assert told["clients"] == 4
    assert told["examples"] == {"train": 120, "validation": 40, "test": 40}


def test_a_saved_partition_gives_the_same_clients() -> None:
    table()
    options = ["--partition", "dirichlet", "--clients", "6", "--alpha", "1", "--data-seed", "3"]
    result = fedloom("data", "partition", *PEOPLE, *options, "--save", "p.safetensors")
    assert result.exit_code == 0
    assert "Partition: p.safetensors" in result.stdout
    train = ["--model", "logistic", "--rounds", "2", "--json"]
    made = json.loads(fedloom("run", *PEOPLE, *options, *train).stdout)
    loaded = json.loads(fedloom("run", *PEOPLE, "--partition", "p.safetensors", *train).stdout)
    assert made["test_loss"] == loaded["test_loss"]


def test_the_data_folder_is_an_option() -> None:
    Path("there").mkdir()
    table("there/people.csv")
    assert fedloom("data", "describe", *PEOPLE, "--data-folder", "there", "--quiet").exit_code == 0
    result = fedloom("data", "describe", *PEOPLE, "--data-folder", "elsewhere")
    assert result.exit_code == 2
    assert "people.csv is neither here nor in the data folder elsewhere" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["data", "describe", "--data", "people.csv", "--label", "class", "--user", "name"],
            "class, v, who, but is 'name'",
        ),
        (["data", "partition", "--save", "p.npz"], "must end in .safetensors"),
        (["data", "get", "imagenet"], "one of cifar10, fashion-mnist, mnist-writers, but is 'imagenet'"),
        (["run", "--algorithm", "central", "--central"], "algorithm must be federated"),
    ],
)
def test_bad_data_is_one_sentence_and_exit_code_2(arguments: list[str], message: str) -> None:
    table()
    result = fedloom(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())
    assert "Traceback" not in result.output


def test_a_weighting_without_its_data_leaves_nothing_behind() -> None:
    result = fedloom("run", "--weighting", "validation-accuracy", "--rounds", "1")
    assert result.exit_code == 2
    assert "weighting must be possible: it reads clients' validation data; give clients some" in result.stderr
    assert "compiling" not in result.stderr
    assert not list(Path().rglob("experiment.toml"))


def test_reproduce_prints_what_is_recorded_and_writes_a_page() -> None:
    results = Path(__file__).parents[1] / "results"
    arguments = ["reproduce", "mcmahan2017", "table1", "--from-results", "--results", str(results), "--page", "t.md"]
    result = fedloom(*arguments)
    assert result.exit_code == 0
    assert "Table 1, 2NN, E = 1, rounds to 97 %" in result.stdout
    assert "| C = 0 |" in Path("t.md").read_text()


def test_reproduce_what_is_not_there() -> None:
    assert "paper must be one of dpasgd2019, mcmahan2017" in fedloom("reproduce", "attention2017").stderr
    assert "part must be one of again, all, figure1, figure2" in fedloom("reproduce", "mcmahan2017", "table9").stderr
    assert "part must be one of" in fedloom("reproduce", "mcmahan2017", "all", "table9").stderr
    nothing = fedloom("reproduce", "mcmahan2017", "table3", "--from-results").stderr
    assert "nothing of table3 is recorded in" in " ".join(nothing.split())
    assert "only must be one of" in fedloom("reproduce", "mcmahan2017", "table1", "--only", "nonsense").stderr
    drawing = "reproduce", "mcmahan2017", "table1", "--from-results"
    assert "only must be left out with --from-results, which runs nothing" in fedloom(*drawing, "--only", "2nn").stderr
    assert "page must be a file, but is '.'" in fedloom(*drawing, "--page", ".").stderr
    elsewhere = "--results", "r", "--data-folder", "none"
    lacking = fedloom("reproduce", "samani2020", "wisdm", "--quick", *elsewhere).stderr
    assert "is neither here nor in the data folder none" in " ".join(lacking.split())
    assert not list(Path("r/samani2020-quick").iterdir())  # nothing had begun
    slow = fedloom("reproduce", "mcmahan2017", "table1", "--quick", "--only", "cnn-iid-C0-E5-B10").stderr
    assert "nothing of cnn-iid-C0-E5-B10 is quick: run without --quick" in " ".join(slow.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--workers", "1", "--target-gap", "0.2"), "workers must be at least 2, but is 1"),
        (("ring", "--parameters", "-3"), "parameters must be at least 1, but is -3"),
        (("small-world:3", "--workers", "9"), "degree must be even, between 2 and 8, but is 3"),
        (("ring", "--neighbours", "fair"), "neighbours must be one of metropolis, optimised, uniform, but is 'fair'"),
        (("ring", "--seed", "3"), "seed must be left alone where no topology is random, but is 3"),
        (("exponential",), "heard by it (--neighbours uniform, weights=\"uniform\"), but is 'metropolis'"),
        (("torus", "random-pairs", "--workers", "7"), "torus: workers must be a product of two numbers of at least 3"),
        (("torus", "random-pairs", "--workers", "7"), "; random-pairs: a graph must be one that stays (this changes"),
    ],
)
def test_bad_topologies(arguments: tuple[str, ...], message: str) -> None:
    result = fedloom("topology", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_what_cannot_be_measured_is_told_of_beside_the_others() -> None:
    names = ["hypercube", "ring", "exponential", "one-peer-exponential", "--workers", "12"]
    result = fedloom("topology", *names)
    assert result.exit_code == 0
    [row] = [line for line in result.stdout.splitlines() if line.startswith("│ ring")]
    assert [cell.strip() for cell in row.strip("│").split("│")] == [
        "ring", "2", "0.9107", "0.0893", "19.1", "4.78e+06", "yes",
    ]  # fmt: skip
    assert "hypercube: workers must be a power of two for a hypercube, but is 12.\n" in result.stdout
    assert "one-peer-exponential: a graph must be one that stays (this changes from round to round)" in result.stdout
    cube, ring, *_ = json.loads(fedloom("topology", *names, "--json").stdout)["results"]
    assert cube == {"topology": "hypercube", "refused": "workers must be a power of two for a hypercube, but is 12"}
    assert (ring["topology"], ring["connections"]) == ("ring", 24)


@pytest.mark.parametrize("width", [30, 80])
def test_numbers_of_topologies_are_never_cut(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedloom.cli.topology.console", Console(width=width))
    result = fedloom("topology", "ring", "small-world:6", "--workers", "512")
    table = result.stdout[: result.stdout.index("└")]
    assert "…" not in table
    for number in ("0.9999", "816.0", "1.33e+18", "small", "0.2"):
        assert number in table


def test_random_topologies_have_a_seed() -> None:
    def zetas(*options: str) -> list[float]:
        return [s["zeta"] for s in json.loads(fedloom("topology", *options, "--json").stdout)["results"]]

    ring, first = zetas("ring", "sparse:0.6")
    same, second = zetas("ring", "sparse:0.6", "--seed", "1")
    assert ring == same and first != second
    assert second == spread(graph("sparse:0.6", 16, seed=1)).zeta
    gap = ("--workers", "30", "--target-gap", "0.3")
    assert zetas(*gap) == [sparsest(30, 0.3).zeta] != zetas(*gap, "--seed", "1") == [sparsest(30, 0.3, seed=1).zeta]


@pytest.mark.slow
def test_sweep_compares_seeds_of_a_topology_and_meetings() -> None:
    options = ["--algorithm", "dpa-sgd", "--topology", "regular:3,matcha:ring:0.5", "--topology-seed", "0,1,2"]
    result = fedloom("sweep", *FAST, *options, "--clients", "10", "--partition", "shards", "--out", "s", "--json")
    assert result.exit_code == 0, result.stderr
    runs = {r["label"]: r for r in json.loads(result.stdout)["results"]}
    used = sum(int(matcha("ring", 10).used(stream(0, PEERS, t)).sum()) for t in range(2))
    assert {label: r["bytes_up"] / (7850 * 4) for label, r in runs.items()} == {
        **{f"topology=regular:3,topology_seed={seed},seed=0": 2 * 30 for seed in (0, 1, 2)},
        "topology=matcha:ring:0.5,seed=0": 10 * used,
    }
    assert len({r["own_on_all_test_loss"] for r in runs.values()}) == 4


def test_topologies_are_measured_and_drawn() -> None:
    result = fedloom("topology", "ring", "torus", "--workers", "16", "--json")
    assert result.exit_code == 0
    ring, torus = json.loads(result.stdout)["results"]
    assert (ring["connections"], torus["connections"], ring["keeps_mean"]) == (32, 64, True)
    assert ring["bytes_a_round"] == 4 * 199_210 * 32
    assert Path("topology.png").stat().st_size > 5000
    assert "random" in fedloom("topology", "--workers", "30", "--target-gap", "0.3").stdout
    assert "topology must be one of complete" in fedloom("topology", "moebius").stderr
    assert "topologies must be named, or looked for" in fedloom("topology").stderr


def test_a_run_without_a_server() -> None:
    arguments = ["run", "--algorithm", "dpa-sgd", "--topology", "ring", "--clients", "8", "--rounds", "2", "--model",
                 "logistic", "--target", "none", "--out", "ring", "--compute", "0.1", "--latency", "2",
                 "--json"]  # fmt: skip
    result = fedloom(*arguments)
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["clock"] == pytest.approx(2 * (5 * 0.1 + 2))
    assert told["bytes_up"] == 2 * 16 * 7850 * 4
    assert told["steps"] == 2 * 8 * 5
    assert "epochs must be left alone with algorithm dpa-sgd" in fedloom(*arguments, "--epochs", "2").stderr
