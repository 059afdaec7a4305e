"""Tests of the program fair-bench, on small federations with few rounds."""

import collections
import dataclasses
import gzip
import lzma
import pathlib
import re
import shutil
import xml.dom.minidom
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks import (
  bench_levels,
  choice_accuracy,
  numpy_methods,
  numpy_rules,
)
from binaries import bench, prepare_data
from tasks import federations
from tests import source_tree
from tests.binaries import in_process
from tff_fair import methods
from tff_fair.experiments import RunSpec, run
from tff_fair.experiments.analysis import (
  federations as analysis,
  method_tables,
  questions,
)
from tff_fair.experiments.analysis.paired import Difference, Part
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.presenting import fair_bench
from tff_fair.experiments.spec import task_loading
from tff_fair.experiments.sweeps import bench as protocol, choice_runs
from tff_fair.experiments.training import execution, in_memory, plan

pytestmark = pytest.mark.usefixtures("compiled_here", "unpainted")

_FEDERATION = """
import numpy as np
import pandas as pd
from tasks.federations import Federation

def opposites():
  rng = np.random.default_rng(0)
  x = rng.normal(size=[120, 2])
  who = np.repeat(["a", "b", "c"], 40)
  y = ((x[:, 0] > 0) ^ (who == "c")).astype(int)
  frame = pd.DataFrame({"who": who, "one": x[:, 0], "two": x[:, 1], "y": y})
  return Federation(
    title="Opposites", about="Three clients. A class.", source="here",
    licence="none", difference="relation", read=lambda source: frame,
    client="who", label="y", kind="classes",
  )
"""
_NAME = "opposites.py:opposites"
_SMALL = (
  f"--federations={_NAME}",
  "--algorithms=fedavg",
  "--data_dir=.",
  "--seeds=2",
  "--rounds=2",
  "--tries=1",
)


def _bench_of(folder, **settings):
  return protocol.Bench(
    folder=folder / "out",
    data_dir=folder,
    federations=(f"{folder}/{_NAME}",),
    **settings,
  )


def _prepare(folder, kind="classes"):
  text = _FEDERATION.replace('kind="classes"', f'kind="{kind}"')
  (folder / "opposites.py").write_text(text)
  federation = federations.get(f"{folder}/{_NAME}")
  federation.prepare(None, folder / "opposites.csv")


program = in_process.program_of(bench, _prepare)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
  """Returns the folder in which fair-bench has finished, and its stdout."""
  folder = tmp_path_factory.mktemp("bench")
  _prepare(folder)
  with pytest.MonkeyPatch.context() as patch:
    patch.chdir(folder)
    outcome = in_process.run(
      bench, *_SMALL, "--results=out.csv.gz", "--picture=out.svg"
    )
  assert outcome.status == 0, outcome.stderr
  return folder, outcome.stdout


def test_it_writes_a_row_for_each_method_seed_and_client(done):
  folder, _ = done
  found = pd.read_csv(folder / "out.csv.gz")
  keys = found[["federation", "method", "seed", "client"]]
  assert len(found) == 2 * 2 * 3
  assert not keys.duplicated().any()
  assert {*found["method"]} == {"fedavg", "FedAvg, equal weights"}
  assert found["score_mean"].between(0, 1).all()


def test_its_runs_are_those_of_training(done):
  folder, _ = done
  item = "outputs/fair_bench/opposites/fedavg/seed-1.csv"
  rows = pd.read_csv(folder / item)
  (table,) = _bench_of(folder, algorithms=("fedavg",), rounds=2).tables()
  (method,) = table.bench.swept_methods
  (tried,) = protocol.settings(method, table.spec().replace(seed=1), 1)
  trained = run(tried, folder / "trained", progress=False)
  expected = trained.clients.sort_values("client_id")
  found = rows.sort_values("client_id")
  for of_item, of_run in (
    ("loss", "test_loss"),
    ("validation_loss", "validation_loss"),
    ("validation_accuracy", "validation_accuracy"),
  ):
    np.testing.assert_allclose(found[of_item], expected[of_run], rtol=1e-6)


def test_the_flag_names_the_model_of_all_runs(done, monkeypatch):
  folder, _ = done
  monkeypatch.chdir(folder)
  asked = []

  def train(spec, *_):
    asked.append(spec)
    raise RunError("ends before training")

  monkeypatch.setattr(in_memory, "train_and_evaluate", train)
  words = "--model=mlp_128", "--output_dir=mlp", "--seeds=1"
  assert in_process.run(bench, *_SMALL, *words).status == 2
  (spec,) = asked
  assert spec.task_options["model"] == "mlp_128"


def test_the_methods_in_numpy_have_the_same_results(done):
  folder, _ = done
  algorithms = ("fedavg", "fedavg:uniform")
  asked = _bench_of(folder, algorithms=algorithms, rounds=2, tries=1)
  (table,) = asked.tables()
  settings = bench_levels.settings_by_method(table)
  found = bench_levels.evaluate_seed(table, settings, 1, {})
  results = pd.read_csv(folder / "out.csv.gz")
  keys = ["method", "client"]
  both = pd.concat(found).merge(results[results["seed"] == 1], on=keys)
  assert len(both) == 6
  np.testing.assert_allclose(both["score_mean_x"], both["score_mean_y"])


def test_baselines_in_numpy_are_fedavgs_of_other_data(tmp_path):
  _prepare(tmp_path)
  (table,) = _bench_of(tmp_path, rounds=3).tables()
  settings = bench_levels.settings_by_method(table, baselines=True)
  assert {len(tried) for tried in settings.values()} == {8}
  task = task_loading.load(table.spec())
  data = numpy_methods.Federation.from_task(task, "accuracy", is_number=False)
  first = np.random.default_rng(0).normal(size=data.shape)

  def train(name, data=data, **fields):
    specs = [spec.replace(**fields) for spec in settings[name]]
    return data.train_models(specs, first, 0)

  def of_clients(*ids):
    x = np.concatenate(
      [data.train.x[k, : data.train.num_examples[k]] for k in ids]
    )
    y = np.concatenate(
      [data.train.y[k, : data.train.num_examples[k]] for k in ids]
    )
    rows = numpy_methods.Data(x[None], y[None], np.array([len(y)]))
    return data._replace(train=rows)

  # A client's 24 rows are one batch, so their order does not matter.
  for k in range(3):
    alone = train("fedavg", of_clients(k))
    np.testing.assert_allclose(train("Alone")[[k]], alone)
    tuned = train("FedAvg, fine-tuned", of_clients(k))
    for j, rounds in enumerate([4, 8] * 4):
      longer = train("fedavg", of_clients(k), total_rounds=rounds)
      np.testing.assert_allclose(
        tuned[..., j, :], longer[..., 2 * (j // 2) + 1, :]
      )
  np.testing.assert_allclose(
    train("Pooled"), train("fedavg", of_clients(0, 1, 2))
  )


def test_further_runs_have_other_initial_weights(done, monkeypatch):
  folder, _ = done
  monkeypatch.chdir(folder)
  words = "--model_seeds=3", "--output_dir=three", "--results=three.csv"
  assert in_process.run(bench, *_SMALL, *words).status == 0
  rows = pd.read_csv("three/opposites/fedavg/seed-1.csv")
  losses = rows.pivot(index="client", columns="model_seed", values="loss")
  assert losses.T.nunique().tolist() == [3, 3, 3]
  asked = _bench_of(folder, rounds=2, tries=1, model_seeds=3)
  (table,) = asked.tables()
  settings = bench_levels.settings_by_method(table)
  in_numpy = pd.concat(bench_levels.evaluate_seed(table, settings, 1, {}))
  results = pd.read_csv("three.csv")
  both = in_numpy.merge(results[results["seed"] == 1], on=["method", "client"])
  assert len(both) == 6
  np.testing.assert_allclose(
    both["score_mean_x"], both["score_mean_y"], atol=2e-6
  )


def test_methods_that_need_accuracies_have_no_items_for_numbers(tmp_path):
  _prepare(tmp_path)
  text = _FEDERATION.replace('kind="classes"', 'kind="number"')
  (tmp_path / "numeric.py").write_text(text)
  asked = _bench_of(tmp_path, algorithms=("fedavg", "fedfa"))
  names = asked.federations[0], f"{tmp_path}/numeric.py:opposites"
  items = dataclasses.replace(asked, federations=names, seeds=(0,)).items()
  assert [item.method.name for item in items] == ["fedavg", "fedfa", "fedavg"]
  (numbers,) = dataclasses.replace(asked, federations=names[1:]).tables()
  assert [*bench_levels.settings_by_method(numbers)] == ["fedavg"]


@pytest.mark.parametrize(
  "algorithm",
  [
    "term",
    *(
      pytest.param(name, marks=pytest.mark.long)
      for name in sorted({*numpy_rules.METHODS} - {"term"})
    ),
  ],
)
def test_tries_in_numpy_have_the_results_of_runs(algorithm, tmp_path):
  # An RMSE shows smaller differences than an accuracy.
  needs_accuracy = methods.method(algorithm).needs_accuracy
  _prepare(tmp_path, "classes" if needs_accuracy else "number")
  score = "accuracy" if needs_accuracy else "rmse"
  (table,) = _bench_of(tmp_path, rounds=3).tables()
  base = table.spec().with_algorithm("fedavg").replace(data_seed=1)
  unit = task_loading.load(base).label_scale
  spec = base.with_algorithm(algorithm)
  wanted = [
    spec,
    spec.replace(client_learning_rate=0.03, seed=2),
  ]
  if algorithm != "term":  # Another process: in the long cases alone.
    wanted.append(spec.replace(client_weighting="uniform"))
  trained = choice_runs.ChoiceRunner(tmp_path / "tries", progress=False)
  for of_run, in_numpy in zip(
    trained.evaluate("", wanted),
    choice_accuracy.NumPyRunner(table, base).evaluate("", wanted),
    strict=True,
  ):
    both = of_run.merge(in_numpy, on="client_id", suffixes=("", "_numpy"))
    assert len(both) == 3
    for column in (score, f"validation_{score}"):
      np.testing.assert_allclose(
        both[column], unit * both[f"{column}_numpy"], rtol=1e-5
      )
    assert both["num_examples"].equals(both["num_examples_numpy"])


def test_baselines_are_of_fedavg_at_its_chosen_setting(
  done, tmp_path, monkeypatch
):
  folder, _ = done
  shutil.copytree(folder, tmp_path / "bench")
  monkeypatch.chdir(tmp_path / "bench")
  asked = []

  def trained(spec, path, *, progress):
    del path, progress
    asked.append(spec)
    clients = pd.DataFrame({"client": ["c", "a", "b"]})
    for k, name in enumerate(("finetuned", "local", "pooled")):
      clients[f"{name}_accuracy"] = [0.75, 0.25 * k, 0.5]
    return SimpleNamespace(clients=clients)

  monkeypatch.setattr(execution, "run", trained)
  outcome = in_process.run(bench, *_SMALL, "--baselines", "--results=all.csv")
  assert outcome.status == 0, outcome.stderr
  found = pd.read_csv("all.csv").set_index(["method", "seed", "client"])
  for k, name in enumerate(("FedAvg, fine-tuned", "Alone", "Pooled")):
    for seed in (0, 1):
      assert found.loc[(name, seed, "a"), "score_mean"] == 0.25 * k
      assert found.loc[(name, seed, "c"), "score_worst_10"] == 0.75
      of_fedavg = found.loc[("fedavg", seed, "a")]
      of_baseline = found.loc[(name, seed, "a")]
      for column in ("setting_mean", "setting_worst_10", "num_examples"):
        assert of_baseline[column] == of_fedavg[column]
  assert [spec.seed for spec in asked] == [0, 1]  # A run per seed.
  for spec in asked:
    assert spec.algorithm == "fedavg"
    assert spec.finetune_epochs == 5
    assert spec.local_baseline
    assert spec.pooled_baseline
  # Runs that have results are not trained again.
  asked.clear()
  in_process.run(bench, *_SMALL, "--baselines", "--results=again.csv")
  assert not asked
  assert (folder / "out.csv.gz").exists()
  assert pathlib.Path("again.csv").read_text() == (
    pathlib.Path("all.csv").read_text()
  )


def test_a_detectable_difference_is_that_of_the_normal_distribution():
  parts = (Part(0.25, 1e7), Part(4.0, 1e7))
  found = bench_levels.detectable_difference(
    Difference(0.0, parts, 5, 30), 5, 7
  )
  z = stats.norm.ppf(1 - 0.05 / 14) + stats.norm.ppf(0.8)
  assert found == pytest.approx(z * np.sqrt(4.25), rel=0.03)


def test_tables_and_the_picture_come_from_the_results_alone(done, tmp_path):
  folder, stdout = done
  words = f"--read={folder / 'out.csv.gz'}", f"--picture={tmp_path}/again.svg"
  assert in_process.run(bench, *words).stdout == stdout
  text = (folder / "out.svg").read_text()
  xml.dom.minidom.parseString(text)
  assert (tmp_path / "again.svg").read_text() == text


@pytest.mark.parametrize("question", questions.NAMES)
def test_the_question_decides_the_intervals(done, question):
  results = pd.read_csv(done[0] / "out.csv.gz")
  compared = analysis.compare(
    results, analysis.BETTER_FEDAVG, question=question
  )
  words = f"--read={done[0] / 'out.csv.gz'}", f"--question={question}"
  shown = in_process.run(bench, *words).stdout
  assert all(fair_bench.difference_cell(result) in shown for result in compared)


@pytest.mark.parametrize("question", questions.NAMES)
def test_it_says_what_one_seed_does_not_show(done, tmp_path, question):
  results = pd.read_csv(done[0] / "out.csv.gz")
  results[results["seed"] == 0].to_csv(tmp_path / "one.csv", index=False)
  words = f"--read={tmp_path / 'one.csv'}", f"--question={question}"
  note = method_tables.interval_note(
    {"opposites": 1}, questions.Question(question)
  )
  stdout = in_process.run(bench, *words).stdout
  assert note in stdout
  assert "**" not in stdout


def test_names_are_cells_of_the_tables():
  nothing = Difference(0.0, (), 1, 1)
  result = analysis.Result(
    "c|d", "a|b", "mean", "accuracy", 0.5, nothing, 1.0, 0.0
  )
  summary = analysis.MethodSummary("a|b", 1, 0, 0, 0, 0.0, 1.0, 1.0)
  for table, names in (
    (fair_bench.federation_table([result], {}), (r"c\|d", r"a\|b")),
    (fair_bench.method_table([summary]), (r"a\|b",)),
  ):
    head, _, row = table.splitlines()
    assert len(re.findall(r"(?<!\\)\|", row)) == head.count("|")
    assert all(name in row for name in names)


def test_the_same_command_has_nothing_left_to_do(done, monkeypatch):
  folder, stdout = done
  monkeypatch.chdir(folder)
  # Training would fail.
  monkeypatch.setattr(in_memory, "train_and_evaluate", None)
  packed = (folder / "out.csv.gz").read_bytes()
  again = in_process.run(bench, *_SMALL, "--results=out.csv.gz")
  assert again.stdout == stdout
  assert (folder / "out.csv.gz").read_bytes() == packed
  assert "rounds=2" in in_process.run(bench, *_SMALL, "--rounds=3").refusal
  other = in_process.run(bench, *_SMALL, "--model=mlp_128")
  assert "model=linear" in other.refusal
  assert gzip.decompress(packed).startswith(b"federation,score,method,seed")


def test_another_table_or_protocol_is_refused(tmp_path, monkeypatch):
  _prepare(tmp_path)
  _bench_of(tmp_path).record()
  before = (tmp_path / "out/protocol.json").read_bytes()
  for dry in (True, False):
    with pytest.raises(RunError, match="rounds=30"):
      _bench_of(tmp_path, rounds=3).record(dry=dry)
  _bench_of(tmp_path, seeds=(0,)).record(dry=True)
  assert (tmp_path / "out/protocol.json").read_bytes() == before
  with monkeypatch.context() as patch:
    patch.setitem(protocol.HYPERPARAMETERS, "term", ("t", (0.1, 2.0)))
    _bench_of(tmp_path, algorithms=("fedavg",)).record()
    with pytest.raises(RunError, match="settings of term"):
      _bench_of(tmp_path, algorithms=("term",)).record()
  with (tmp_path / "opposites.csv").open("a") as table:
    table.write("c,0.5,0.5,1\n")
  for other in (_bench_of(tmp_path), _bench_of(tmp_path, seeds=(0,))):
    with pytest.raises(RunError, match=r"opposites\.csv") as refused:
      other.record()
    assert "\n" not in str(refused.value)
  for damaged in ("{", "[]"):
    (tmp_path / "out" / "protocol.json").write_text(damaged)
    with pytest.raises(RunError, match=r"protocol\.json"):
      _bench_of(tmp_path).record()


@pytest.mark.long
def test_a_process_reports_a_setting_that_no_run_can_have_in_a_line(
  program, capfd
):
  words = "--algorithms=fedavg,fedminmax", "--jobs=2", "--seeds=1"
  assert program(*_SMALL, *words).status == 2
  stderr = capfd.readouterr().err
  assert "algorithm='fedminmax'" in stderr
  assert "Traceback" not in stderr


def test_settings_are_as_many_for_each_method():
  for kind in ("classes", "number"):
    spec = RunSpec(task="table", task_options={"kind": kind}, total_rounds=1)
    asked = protocol.Bench(
      folder=None,
      data_dir=None,
      algorithms=protocol.ALL_METHODS,
    )
    for method in asked.swept_methods:
      for tries in (1, 2, 4, 8):
        found = protocol.settings(method, spec, tries)
        told = {*map(protocol.describe, found)}
        assert len(told) == tries
        if method.name in ("ditto", "aligned_mtl") and tries > 1:
          varied = {(str(s.all_hparams), s.server_learning_rate) for s in found}
          assert len(varied) == 2
        assert method.name != "adafed" or "gamma" not in told.pop()


def test_calibrations_change_what_they_say(tmp_path):
  _prepare(tmp_path)
  federation = federations.get(f"{tmp_path}/{_NAME}")
  frame = federation.read(None)
  mixed = protocol.shuffle_clients(frame, federation, np.random.default_rng(1))
  assert mixed.drop(columns="who").equals(frame.drop(columns="who"))
  assert (mixed["who"].value_counts() == 40).all()
  assert not mixed["who"].equals(frame["who"])
  turned = protocol.invert_labels(
    frame, federation, 0.4, np.random.default_rng(1)
  )
  assert turned["who"].equals(mixed["who"])
  changed = (turned["y"] != frame["y"]).groupby(turned["who"]).mean()
  assert sorted(changed) == [0, 0, 1]
  numbered = frame.assign(who=frame["who"].map({"a": 1, "b": 2, "c": 3}))
  same = protocol.invert_labels(
    numbered, federation, 0.4, np.random.default_rng(1)
  )
  assert same["y"].equals(turned["y"])


@pytest.mark.parametrize(
  ("words", "fact"),
  [
    (["--federations=vehicel"], "did you mean vehicle?"),
    (["--federations=vehicle", "--data_dir=."], "vehicle.csv is missing"),
    ([*_SMALL, "--algorithms=fedavgg"], "did you mean fedavg or"),
    (["--tries=3"], "--tries=3: "),
    (["--read=nowhere.csv"], "--read=nowhere.csv: cannot be read"),
    (["--read=opposites.csv"], "--read=opposites.csv: lacks client"),
  ],
)
def test_wrong_flags_are_refused_in_a_line(program, words, fact):
  refusal = program(*words).refusal
  assert fact in refusal
  assert len(refusal) <= 300


@pytest.mark.parametrize(
  "words",
  [
    ("--federations=",),
    ("--copies=0", "--calibration=null"),
    ("--share=0", "--calibration=power"),
    ("--share=5", "--calibration=power"),
    ("--copies=2",),
    ("--share=0.5", "--calibration=null"),
    ("--picture=out.svg", "--calibration=null"),
    ("--baseline=fedavg", "--calibration=power"),
    ("--jobs=2", "--read=out.csv"),
    ("--dry_run", "--read=out.csv"),
    ("--baselines", "--model_seeds=2"),
    ("--picture=out.csv", "--results=out.csv"),
  ],
)
def test_a_flag_that_has_no_effect_is_refused(program, words):
  name = words[0].partition("=")[0]
  refusal = program(*words).refusal
  assert refusal.removeprefix("bench: ").startswith((name, f"flag {name}"))


@pytest.mark.parametrize(("tries", "number"), [(1, "3"), (8, "10 to 12")])
def test_a_dry_run_counts_the_runs_of_all_model_seeds(program, tries, number):
  planned = program(*_SMALL, f"--tries={tries}", "--model_seeds=3", "--dry_run")
  assert f"4 items of {number} runs" in planned.stdout


@pytest.mark.parametrize(
  ("damage", "problem"),
  [
    (lambda f: f.assign(score="none"), "score none"),
    (lambda f: f.assign(client=f["client"].mask(f.index == 2)), "line 4"),
    (lambda f: pd.concat([f, f[:1]]), "twice"),
    (lambda f: f[1:], "other clients"),
    (lambda f: f[:0], "no row"),
    (lambda f: f.assign(score_mean="much"), "score_mean"),
    (lambda f: f.assign(num_examples="x"), "num_examples"),
    (lambda f: f.drop(columns="num_examples"), "lacks num_examples"),
    (lambda f: f.assign(seed=f["seed"] + 0.5), "seed has"),
    (lambda f: f.assign(score_mean=7.0), "accuracy outside [0, 1]"),
    (lambda f: f.assign(score_mean=-np.inf), "accuracy outside [0, 1]"),
    (lambda f: f.assign(num_examples=0), "without examples"),
    (
      lambda f: f.assign(score=f["score"].where(f["seed"] == 0, "rmse")),
      "more than one score",
    ),
    (lambda f: f[f["method"] == "fedavg"], "--baseline=better"),
    (
      lambda f: f[(f["method"] == "fedavg") | (f["seed"] == 0)],
      "other seeds",
    ),
  ],
)
def test_damaged_results_are_refused_in_a_line(
  done, program, tmp_path, damage, problem
):
  folder, _ = done
  damage(pd.read_csv(folder / "out.csv.gz")).to_csv(
    tmp_path / "damaged.csv", index=False
  )
  refusal = program(f"--read={tmp_path / 'damaged.csv'}").refusal
  assert problem in refusal


@pytest.mark.parametrize(
  "content",
  [
    lambda text: gzip.compress(text)[:150],
    lambda text: lzma.compress(text)[:-40],
    lambda text: lzma.compress(text)[:40] + bytes(40),
    lambda text: b"PK\x03\x04" + text,
    lambda text: text[:60] + b"\xff" + text[60:],
  ],
)
def test_files_that_are_not_tables_are_refused_in_a_line(
  done, program, tmp_path, content
):
  text = gzip.decompress((done[0] / "out.csv.gz").read_bytes())
  (tmp_path / "other.csv.xz").write_bytes(content(text))
  assert "other.csv.xz" in program(f"--read={tmp_path}/other.csv.xz").refusal


@pytest.mark.parametrize("name", ["it.csv", "it.csv.gz", "it.csv.XZ"])
def test_it_reads_what_it_writes(done, tmp_path, name):
  words = f"--read={done[0] / 'out.csv.gz'}", f"--results={tmp_path / name}"
  assert in_process.run(bench, *words).stdout == done[1]
  again = in_process.run(bench, f"--read={tmp_path / name}")
  assert again.stdout == done[1]
  is_packed = not (tmp_path / name).read_bytes().startswith(b"federation")
  assert is_packed == (name != "it.csv")


def test_a_federation_without_the_baseline_is_left_out_and_named(
  done, tmp_path
):
  results = pd.read_csv(done[0] / "out.csv.gz", converters={"client": str})
  other = results[results["method"] != "fedavg"].assign(federation="vehicle")
  pd.concat([results, other]).to_csv(tmp_path / "two.csv", index=False)
  words = f"--read={tmp_path / 'two.csv'}", "--baseline=fedavg"
  found = in_process.run(bench, *words)
  assert found.status == 0
  assert "Vehicle" in found.stderr
  assert "Vehicle" not in found.stdout


@pytest.mark.parametrize(
  ("damage", "problem"),
  [
    (lambda f: f[:-1], "other clients"),
    (lambda f: f.assign(setting=f["setting"].where(f.index < 2, 1)), "lacks"),
    (lambda f: f[:0], "lacks rows"),
    (lambda f: pd.concat([f, f[:1]]), "twice"),
    (lambda f: f.drop(columns="accuracy"), "lacks accuracy"),
    (lambda f: f.drop(columns=[*f]), "cannot be read"),
    (lambda f: f.assign(client=f["client"] + "x"), "other clients"),
  ],
)
def test_a_damaged_file_of_an_item_is_refused_in_a_line(
  done, tmp_path, monkeypatch, damage, problem
):
  shutil.copytree(done[0], tmp_path / "bench")
  monkeypatch.chdir(tmp_path / "bench")
  path = pathlib.Path("outputs/fair_bench/opposites/fedavg/seed-1.csv")
  damage(pd.read_csv(path)).to_csv(path, index=False)
  refusal = in_process.run(bench, *_SMALL).refusal
  assert problem in refusal
  assert "outputs/fair_bench" in refusal


def test_clients_may_have_names_of_other_kinds(done, tmp_path, monkeypatch):
  shutil.copytree(done[0], tmp_path / "bench")
  monkeypatch.chdir(tmp_path / "bench")
  for path in pathlib.Path("outputs/fair_bench/opposites").rglob("*.csv"):
    names = {"a": "01", "b": "2", "c": "NA"}
    rows = pd.read_csv(path)
    rows.assign(client=rows["client"].map(names)).to_csv(path, index=False)
  found = in_process.run(bench, *_SMALL, "--results=names.csv")
  assert found.stdout == done[1]
  assert in_process.run(bench, "--read=names.csv").stdout == done[1]
  assert ",01," in pathlib.Path("names.csv").read_text()


_RULES = """
import dataclasses
from tff_fair import types

@dataclasses.dataclass(frozen=True, kw_only=True)
class Mean(types.Rule):
  signals = ("accuracy",)
  def coefficients(self, cohort, state):
    return types.RuleOutput(cohort.weight, state)

mean = Mean
"""


def test_two_methods_or_versions_have_no_file_in_common(tmp_path):
  _prepare(tmp_path)
  path = tmp_path / "rules.py"
  path.write_text(_RULES)
  upper, lower = f"{path}:Mean", f"{path}:mean"
  for names in ((upper, lower), ("term", "term")):
    with pytest.raises(RunError, match="two methods"):
      _bench_of(tmp_path, algorithms=names).record()
  _bench_of(tmp_path, algorithms=(upper,)).record()
  _bench_of(tmp_path, algorithms=("term", upper)).record()
  with pytest.raises(RunError, match="another version"):
    _bench_of(tmp_path, algorithms=(lower,)).record()
  path.write_text(f"{_RULES}# Edited.")
  with pytest.raises(RunError, match="another version"):
    _bench_of(tmp_path, algorithms=(upper,)).record()
  federation = tmp_path / "opposites.py"
  federation.write_text(_FEDERATION.replace('"classes"', '"number"'))
  with pytest.raises(RunError, match="another version of"):
    _bench_of(tmp_path).record()


def test_a_dry_run_says_which_methods_numbers_exclude(program):
  text = pathlib.Path("opposites.py").read_text()
  pathlib.Path("opposites.py").write_text(text.replace("classes", "number"))
  planned = program(*_SMALL, "--algorithms=fedavg,fedfa", "--dry_run")
  assert "no results of fedfa" in planned.stderr


@pytest.mark.parametrize("flag", ["--results", "--picture"])
def test_outputs_that_cannot_be_written_are_refused_in_a_line(
  done, program, flag
):
  words = f"--read={done[0] / 'out.csv.gz'}", f"{flag}=opposites.py/out"
  assert flag in program(*words).refusal
  # A folder is refused before any training.
  assert program(*_SMALL, f"{flag}=.").refusal.startswith(f"bench: {flag}=.")
  assert not pathlib.Path("outputs").exists()


@pytest.mark.parametrize(
  ("before", "after", "problem"),
  [
    ('kind="classes"', 'kind="auto"', "expected classes or number"),
    ("rng.normal(", "rng.norm(", "AttributeError"),
    ("lambda source: frame", "lambda source: [1]", "returns a list"),
    ("lambda source: frame", "lambda: frame", "TypeError"),
  ],
)
def test_a_wrong_federation_is_refused_in_a_line(
  tmp_path, monkeypatch, before, after, problem
):
  monkeypatch.chdir(tmp_path)
  text = _FEDERATION.replace(before, after)
  pathlib.Path("wrong.py").write_text(text)
  words = "--federation=wrong.py:opposites", "--data_dir=."
  assert problem in in_process.run(prepare_data, *words).refusal


def test_all_methods_are_those_that_any_table_can_train(program):
  planned = program(*_SMALL, "--algorithms=all", "--dry_run")
  assert planned.status == 0
  assert f"{2 * len(protocol.ALL_METHODS)} items" in planned.stdout
  assert {plan.FAIRFED, plan.FEDMINMAX}.isdisjoint(protocol.ALL_METHODS)
  assert {"scaffold", "maxfl", "nash_mtl"} <= {*protocol.ALL_METHODS}


@pytest.mark.long
@pytest.mark.parametrize(
  ("results", "picture"),
  [
    ("fair_bench_model_seeds.csv.xz", None),
    pytest.param(
      "fair_bench_numpy.csv.xz", "fair_bench.svg", marks=pytest.mark.long
    ),
  ],
)
def test_the_page_shows_what_the_published_results_say(
  results, picture, tmp_path
):
  docs = source_tree.ROOT / "docs"
  words = f"--read={docs / results}", f"--picture={tmp_path / 'again.svg'}"
  stdout = in_process.run(bench, *words).stdout
  over_federations = stdout.rstrip().rpartition("\n\n")[2]
  assert over_federations in (docs / "fair_bench.md").read_text()
  if picture is not None:
    drawn = (tmp_path / "again.svg").read_text()
    assert drawn == (docs / picture).read_text()


def test_the_page_names_the_clear_gains_of_the_other_methods():
  path = source_tree.ROOT / "docs" / "fair_bench_others_model_seeds.csv.xz"
  compared = analysis.compare(
    pd.read_csv(path), analysis.BETTER_FEDAVG, columns=["mean", "worst_10"]
  )
  assert len({one.method for one in compared} - {analysis.FEDAVG}) == 24
  on_parkinsons = (
    *("fedavg_n", "fedadam", "delta_fl", "gifair", "n_accadam"),
    "FedAdam, equal weights",
  )
  assert [
    (one.column, one.federation, one.method)
    for one in compared
    if one.verdict == "gain"
  ] == [
    ("mean", "communities", "aligned_mtl"),
    *(("mean", "parkinsons", name) for name in on_parkinsons),
    ("worst_10", "star", "fedgini"),
  ]


def test_the_page_counts_the_clear_differences_of_the_baselines():
  docs = source_tree.ROOT / "docs"
  results = pd.read_csv(docs / "fair_bench_baselines.csv.xz")
  compared = [
    result
    for column in ("mean", "worst_10")
    for result in analysis.compare(
      results, analysis.BETTER_FEDAVG, criterion=column, columns=[column]
    )
  ]
  found = collections.Counter((r.method, r.column, r.verdict) for r in compared)
  page = (docs / "fair_bench.md").read_text()
  for title, method in (
    ("FedAvg, fine-tuned", "FedAvg, fine-tuned"),
    ("alone", "Alone"),
    ("pooled", "Pooled"),
  ):
    counts = [
      found[method, column, verdict]
      for column in ("mean", "worst_10")
      for verdict in ("gain", "loss")
    ]
    assert f"| {title} | {' | '.join(map(str, counts))} |" in page


def test_with_a_hidden_layer_only_ditto_differs_clearly():
  path = source_tree.ROOT / "docs" / "fair_bench_mlp.csv.gz"
  compared = analysis.compare(pd.read_csv(path), analysis.BETTER_FEDAVG)
  clear = [one for one in compared if one.verdict != "neither"]
  assert {(one.federation, one.method) for one in clear} == {
    ("parkinsons", "ditto")
  }
