"""Tests that exported models give a run's results without TFF and our code."""

import dataclasses
import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import tasks
from tasks import models, task as task_module
from tests.refusals import rejected
from tff_fair import experiments
from tff_fair.experiments.analysis import ceiling_records
from tff_fair.experiments.analysis.ceiling import Ceilings
from tff_fair.experiments.presenting import (
  card as export_card,
  export_paths,
  model_formats,
)
from tff_fair.experiments.presenting.export import ExportResult
from tff_fair.experiments.runs import trained_model
from tff_fair.experiments.runs.folder import RunFolder

pytestmark = [
  pytest.mark.program,
  pytest.mark.usefixtures("compiled_once", "unpainted"),
]

SPEC = experiments.RunSpec(
  task="digits",
  task_options={"num_clients": 6},
  algorithm="ditto",
  total_rounds=2,
  criterion="mean",
  clients_per_round=3,
)
WEIGHTS = [
  np.array([[0.5, -1.0, 0.25], [-0.75, 0.5, 1.0]], np.float32),
  np.array([0.1, 0.2, -0.3], np.float32),
]
# A program that runs the code of each export's card, and keeps the predictions.
PROGRAM = """
import json, os, sys
import numpy as np
import tensorflow as tf

for name in json.load(open("cases.json")):
  arrays = np.load(f"{name}.npz", allow_pickle=False)
  values = {key: arrays[key] for key in arrays.files}
  x = tf.constant(values["x"]) if "x" in values else None
  space = {"tf": tf, "x": x, "frame": values}
  exec(open(f"{name}.py").read(), space)
  np.save(f"{name}.npy", space.get("probabilities", space.get("number")))
ours = {"tensorflow_federated", "tff_fair", "tasks"} & sys.modules.keys()
assert not ours, ours
"""


class CityAndAge:
  """A preprocessing of two columns."""

  def __init__(self):
    self.columns = {"age": "number", "home town": "text"}
    self.typical = {"age": 40.0, "home town": "Graz"}

  def wrap(self, model):
    age = tf.keras.Input([], name="age")
    city = tf.keras.Input([], dtype="string", name="home_town")
    known = tf.where(tf.math.is_nan(age), 0.0, age)
    number = tf.keras.layers.StringLookup(vocabulary=["Bonn", "Ulm"])(city)
    x = tf.stack([known, tf.cast(number, tf.float32)], axis=1)
    outputs = tf.keras.layers.Softmax(name="probabilities")(model(x))
    return tf.keras.Model({"age": age, "home town": city}, outputs)


def task_of_columns():
  split = task_module.Split(
    num_examples=np.ones(2, np.int64),
    load=lambda _: (np.zeros([1, 2], np.float32), np.zeros(1, np.int32)),
  )
  return task_module.Task(
    name="towns",
    description="two columns",
    client_names=("a", "b"),
    train=split,
    test=split,
    element_spec=task_module.element_spec([2]),
    num_classes=3,
    keras_model_fn=lambda: models.mlp((2,), (), 3, 0),
    objective=models.class_objective(),
    class_names=("x", "y", "z"),
    preprocessing=CityAndAge(),
  )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
  folder = tmp_path_factory.mktemp("run") / "run"
  return experiments.run(SPEC, folder, progress=False)


def export_towns(run, folder):
  """Exports a model that takes raw columns in each format, without any data."""
  folder.mkdir()
  run = dataclasses.replace(run, path=folder)
  described = trained_model.Architecture.of_task(task_of_columns())
  described.write(folder / "model.json")
  found = trained_model.find(RunFolder(run.path), run.config, lambda: run.spec)
  exports = []
  for kind, suffix in export_paths.SUFFIXES.items():
    writer = model_formats.Writer(found, kind)
    path = folder.parent / f"towns_of_{kind}{suffix}"
    writer.write(WEIGHTS, path)
    page = export_paths.card_path(path)
    page.write_text(
      export_card.usage(writer.predictor, described, kind, path.name)
    )
    exports.append(ExportResult(path, page, 1, writer.notes))
  return exports


def probabilities_of_towns(x):
  logits = np.array(x) @ WEIGHTS[0].astype(np.float64) + WEIGHTS[1]
  exponentials = np.exp(logits)
  return exponentials / exponentials.sum(1, keepdims=True)


def code_of(card):
  """Returns the code of a card, without its made-up inputs."""
  (code,) = re.findall(r"```python\n(.*?)```", card.read_text(), re.S)
  return re.sub(r"^(x = [^\n]*|frame = .*?^\}\))$", "", code, flags=re.M | re.S)


def write_case(exported, **inputs):
  path = exported.path
  path.with_name(f"{path.name}.py").write_text(code_of(exported.card))
  np.savez(path.with_name(f"{path.name}.npz"), **inputs)
  return path.name


def check_evaluation(rows, predictions, losses, accuracies):
  """Checks clients' losses and accuracies by `predictions` for all clients."""
  task = tasks.load("digits", **SPEC.task_options)
  start = 0
  for row in rows.to_dict("records"):
    _, y = task.test.load(int(row["client_id"]))
    own = predictions[start : start + len(y)].astype(np.float64)
    start += len(y)
    loss = -np.log(own[np.arange(len(y)), y]).mean()
    assert loss == pytest.approx(row[losses], abs=1e-6)
    accuracy = (own.argmax(1) == y).mean()
    assert accuracy == pytest.approx(row[accuracies], abs=1e-6)
  assert start == len(predictions)


def test_exports_give_the_evaluations_without_this_library(run, tmp_path):
  task = tasks.load("digits", **SPEC.task_options)
  rows = run.client_evaluations.query("round == 2")
  x = np.concatenate([task.test.load(int(k))[0] for k in rows["client_id"]])
  trained = int(run.cohorts.query("round == 2")["client_id"].iloc[0])
  own = rows[rows["client_id"] == trained]
  x_of_own = task.test.load(trained)[0]
  columns = {
    "age": np.array([1.5, np.nan, 2.0], np.float32),
    "home town": np.array(["Ulm", "", "Rom"]),
  }
  towns = export_towns(run, tmp_path / "towns")
  personal = experiments.export(
    run, tmp_path / "one.keras", client=run.client_names[trained]
  )
  for_all = [
    write_case(experiments.export(run, tmp_path / name), x=x)
    for name in ("model.keras", "saved", "model.tflite")
  ]
  cases = [*for_all, write_case(personal, x=x_of_own)]
  cases += [write_case(exported, **columns) for exported in towns]
  (tmp_path / "cases.json").write_text(json.dumps(cases))
  found = subprocess.run(
    [sys.executable, "-c", PROGRAM],
    cwd=tmp_path,
    capture_output=True,
    text=True,
    check=False,
    timeout=200,
  )
  assert found.returncode == 0, found.stderr[-2000:]
  predictions = {name: np.load(tmp_path / f"{name}.npy") for name in cases}
  for name in for_all:
    check_evaluation(rows, predictions[name], "global_loss", "global_accuracy")
  check_evaluation(own, predictions["one.keras"], "loss", "accuracy")
  expected = probabilities_of_towns([[1.5, 2], [0, 0], [2, 0]])
  for exported in towns:
    probabilities = predictions[exported.path.name]
    np.testing.assert_allclose(probabilities, expected, atol=1e-6)


def test_a_model_needs_no_data_but_its_description(run, tmp_path, monkeypatch):
  monkeypatch.setattr(tasks, "load", None)
  assert run.model().input_shape == (None, 64)
  copy = dataclasses.replace(run, path=tmp_path)
  shutil.copytree(run.path / "checkpoints", tmp_path / "checkpoints")
  monkeypatch.undo()
  # Without the description of the model, the run's task builds it.
  assert copy.model().input_shape == (None, 64)


def test_all_personal_models_are_written_by_name(run, tmp_path):
  exported = experiments.export(run, tmp_path / "all", all_clients=True)
  index = pd.read_csv(exported.path / "clients.csv")
  files = {path.name for path in exported.path.iterdir()}
  assert {*index["file"], "clients.csv"} == files
  assert 3 <= len(index) <= 6
  text = exported.card.read_text()
  # Clients whose names cannot be distinct file names get their ids instead.
  first, second, third, *_ = index["client"]
  names = {first: "Ward", second: "ward", third: "a/b"}
  renamed = dataclasses.replace(run)
  vars(renamed)["clients"] = run.clients.replace({"client": names})
  again = experiments.export(
    renamed, tmp_path / "all", all_clients=True, overwrite=True
  )
  found = {path.stem for path in again.path.iterdir()}
  assert {f"client {k}" for k in index["client_id"][:3]} < found
  assert not found & {"Ward", "ward", "a"}
  assert again.card.read_text() == text
  assert sorted(p.name for p in tmp_path.iterdir()) == ["all", "all_card.md"]


@pytest.mark.parametrize(
  ("name", "content"),
  [
    (export_paths.FORM, "{}"),
    (export_paths.INDEX, "client_id,client,file\n0,a,a.keras\n"),
  ],
)
def test_a_folder_of_an_export_and_a_file_of_the_users_is_not_replaced(
  tmp_path, name, content
):
  (tmp_path / name).write_text(content)
  export_paths.check_free(tmp_path, overwrite=True)
  (tmp_path / "mine.txt").touch()
  with rejected("output"):
    export_paths.check_free(tmp_path, overwrite=True)


def test_a_card_says_what_a_reader_needs(run, tmp_path):
  card = experiments.export(run, tmp_path / "m.keras", best=True).card
  text = card.read_text()
  best = run.client_evaluations["round"] == run.summary["best"]["round"]
  accuracies = run.client_evaluations[best]["global_accuracy"]
  for words in (
    "Model card: m.keras",
    "Ditto: Fair and Robust Federated Learning",
    "| `hparam.lam` | 0.1 |",
    "simulated a federation of 6 clients",
    "95 % interval",
    "the best evaluation by mean",
    "chose this model among those of other rounds",
    "they are not in this file",
    "`0`, `1`, `2`",
  ):
    assert words in text, words
  assert f"| mean | {100 * accuracies.mean():.1f} % |" in text
  assert str(tmp_path) not in text


@pytest.fixture(scope="module")
def fair_and_baselines(tmp_path_factory):
  folder = tmp_path_factory.mktemp("baselines")
  spec = SPEC.replace(algorithm="fedfv", criterion=None)
  return [
    experiments.run(one, folder / f"{k}", progress=False)
    for k, one in enumerate([spec, *spec.baselines()])
  ]


def test_a_card_has_the_ceiling_beside_its_run(run, tmp_path):
  path = shutil.copytree(run.path, tmp_path / "run")
  risks = ("mean", "tail", "largest")
  measured = {f"{of}{r}": 0.25 for of in ("", "test_") for r in risks}
  above = {f"excess_{risk}": 0.375 for risk in risks}
  point = {"s": 0.0, "value": 0.25, "bound": 0.25, "gap": 0.0, "norm": 1.0}
  of = {"data": 0}
  data = of | {"loss": "softmax", "representation": "", "radius": 100.0}
  least = [{**of, "risk": risk, **point, **measured} for risk in risks]
  found = {**of, "path": str(path), "method": "Ditto", **measured, **above}
  tables = pd.DataFrame([data]), pd.DataFrame(least), pd.DataFrame([found])
  ceiling_records.write(Ceilings(0.1, "uniform", *tables, notes=()))

  def card():
    found = experiments.export(path, tmp_path / "m.keras", overwrite=True)
    return found.card.read_text()

  assert card().count("0.375") == 3
  ceiling = path / "ceiling.json"
  ceiling.write_text(ceiling.read_text().replace('"rounds": 2', '"rounds": 1'))
  assert "0.375" not in card()


@pytest.mark.long
def test_a_card_names_the_better_fedavg(fair_and_baselines, tmp_path):
  fair, *baselines = fair_and_baselines
  card = experiments.export(
    fair, tmp_path / "m.keras", baselines=[baselines[0], baselines[1].path]
  ).card
  text = card.read_text()
  worst = {r.title: r.summary["test_accuracy"]["worst_10"] for r in baselines}
  assert worst.keys() == {"FedAvg", "FedAvg, equal weights"}
  best = max(worst, key=worst.get)
  (line,) = (n for n in text.splitlines() if n.startswith("The worst 10 % of"))
  assert (
    f"the better of the baselines, “{best}”, {100 * worst[best]:.0f}" in line
  )
  assert "rates 0.1, 0.1" in line
  assert "Clients weigh by their numbers of examples in FedAvg" in line
  assert str(baselines[0].path) not in text


@pytest.mark.long
def test_baselines_of_a_card_are_comparable(fair_and_baselines, run, tmp_path):
  fair, baseline, _ = fair_and_baselines
  resolved = {**baseline.config["resolved"], "seed": 5}
  config = {**baseline.config, "resolved": resolved}
  other = dataclasses.replace(baseline, config=config)
  unfinished = dataclasses.replace(baseline, summary=None)
  for exported, given, problem in (
    (fair, [other], "has other seeds"),
    (fair, [unfinished], "is not finished"),
    (fair, [baseline, baseline], "more than once"),
    (run, [baseline], "personal"),
  ):
    with rejected("baselines", problem):
      experiments.export(exported, tmp_path / "m.keras", baselines=given)
  assert not list(tmp_path.iterdir())


def test_a_card_has_no_names_of_clients_and_no_folders(run, tmp_path):
  (tmp_path / "wards.py").write_text(
    "def make_task(*, file: str='', places: str='', target: str=''):\n  ...\n"
    "def small(x, num_outputs, seed):\n  ...\n"
  )
  given = {
    "task": f"{tmp_path}/wards.py:make_task",
    "model": f"{tmp_path}/wards.py:small",
    "initial_run": f"{tmp_path}/before",
    "unseen_clients": "client_3,client_5",
    "join_round": "0.2:2,client_4:2",
  }
  options = {"file": "eve/wards.csv", "places": "~/eve", "target": "a/b"}
  spec = {**run.config["spec"], **given, "task_options": options}
  resolved = {**run.config["resolved"], "task": given["task"]}
  config = {**run.config, "spec": spec, "resolved": resolved}
  told = dataclasses.replace(run, config=config)
  text = experiments.export(told, tmp_path / "m.keras").card.read_text()
  for words in (
    "the task `wards.py:make_task`",
    "| `model` | wards.py:small |",
    "| `initial_run` | before |",
    "| `unseen_clients` | a client, a client |",
    "| `join_round` | 0.2:2, a client:2 |",
    "| `task_option.file` | wards.csv |",
    "| `task_option.target` | a/b |",
  ):
    assert words in text, words
  assert not re.search("client_[0-9]|eve/", text)
  assert str(tmp_path) not in text


@pytest.mark.parametrize(
  ("name", "arguments", "field", "fact"),
  [
    ("m.keras", {"format": "onnx"}, "format", "keras"),
    ("m", {"format": "onnx", "all_clients": True}, "format", "keras"),
    ("m.keras", {"format": "tflite"}, "output", "m.tflite"),
    ("model", {"format": "keras"}, "output", "model.keras"),
    ("m.keras", {"client": "client_77"}, "client", "client_5"),
    ("m.keras", {"client": "a", "all_clients": True}, "all_clients", "client"),
    ("taken.keras", {}, "output", "taken.keras"),
    ("folder", {}, "output", "--overwrite"),
    ("folder", {"overwrite": True}, "output", "folder"),
    ("taken.keras/m.keras", {}, "output", "taken.keras"),
  ],
)
def test_what_cannot_be_written_is_refused(
  run, tmp_path, monkeypatch, name, arguments, field, fact
):
  monkeypatch.chdir(tmp_path)
  (tmp_path / "taken.keras").write_text("mine")
  (tmp_path / "folder").mkdir()
  (tmp_path / "folder" / "mine.txt").touch()
  with rejected(field, fact):
    experiments.export(run, name, **arguments)
  assert sorted(p.name for p in tmp_path.rglob("*")) == [
    "folder",
    "mine.txt",
    "taken.keras",
  ]
  assert (tmp_path / "taken.keras").read_text() == "mine"


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xff", b'"', b"a\0b\n"])
def test_a_folder_whose_list_of_clients_is_damaged_is_not_replaced(
  tmp_path, content
):
  (tmp_path / export_paths.INDEX).write_bytes(content)
  with rejected("output"):
    export_paths.check_free(tmp_path, overwrite=True)


@pytest.mark.parametrize(
  ("name", "value"),
  [
    ("x_dtype", "none such"),
    ("activation", "none such"),
    ("x_shape", 64),
    ("num_classes", "ten"),
    ("class_names", True),
  ],
)
def test_a_damaged_description_of_the_model_is_one_line(
  run, tmp_path, name, value
):
  copied = shutil.copytree(run.path, tmp_path / "run")
  path = copied / "model.json"
  path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
  with pytest.raises(experiments.RunError, match=r"model\.json") as error:
    experiments.export(copied, tmp_path / "model.keras")
  assert "\n" not in str(error.value)
