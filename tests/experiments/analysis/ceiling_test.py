"""Tests of ceilings of tasks and runs; tests/metrics tests the mathematics."""

import itertools
import json
import shutil

import numpy as np
import pytest

from binaries import ceiling as program
from tests.binaries import in_process
from tests.experiments import run_folders
from tests.experiments.presenting.report import page_parts
from tests.refusals import rejected
from tff_fair import experiments
from tff_fair.experiments import RunSpec
from tff_fair.experiments.analysis import ceiling_problems, ceiling_records
from tff_fair.experiments.presenting import ceiling as presenting
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec import task_loading
from tff_fair.files import parsing

pytestmark = pytest.mark.program

_NUM_CLIENTS, _RADIUS = 4, 10.0
_DIVERGED = "2"
# A user's model with a hidden layer of four units.
_HIDDEN = """
import tensorflow as tf

def build(input_shape, num_classes):
  return tf.keras.Sequential([
    tf.keras.layers.InputLayer(input_shape),
    tf.keras.layers.Dense(4, "relu"),
    tf.keras.layers.Dense(num_classes),
  ])
"""


def _write_rows(folder):
  """Writes files of clients' rows: one with three classes, one with numbers."""
  rng = np.random.default_rng(0)
  client = np.repeat(np.arange(_NUM_CLIENTS), 30)
  x = rng.normal(size=(client.size, 3)).astype(np.float32)
  tilt = rng.normal(size=(_NUM_CLIENTS, 3))
  z = x[:, 0] + np.einsum("nd,nd->n", x, tilt[client]) + rng.normal(size=120)
  y = np.digitize(z, (-1, 1))
  np.savez(folder / "classes.npz", x=x, y=y, client=client)
  np.savez(
    folder / "numbers.npz", x=x, y=(1000 * z).astype(np.float32), client=client
  )


def _spec(folder, name="classes", model="linear", **settings):
  options = {"file": str(folder / f"{name}.npz"), "model": model}
  return RunSpec(
    task="arrays",
    task_options=options,
    algorithm="fedavg",
    total_rounds=2,
    sampling="all",
    client_learning_rate=0.1,
    **settings,
  )


def _weights(run):
  """Returns random weights for a run; its folder's name is their seed."""
  rng = np.random.default_rng(int(run.path.name))
  sizes = (3, 3) if run.spec.model is None else (3, 4, 3)
  scale = 1e6 if run.path.name == _DIVERGED else 1.0
  return [
    scale * rng.normal(size=shape).astype(np.float32)
    for before, after in itertools.pairwise(sizes)
    for shape in ((before, after), (after,))
  ]


def _make(path, spec):
  settings = {n: v for n, v in spec.to_dict().items() if v is not None}
  run_folders.make(path, [(2, (0.5,) * _NUM_CLIENTS)], **settings)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """Returns a folder of runs made by hand, with random weights."""
  found = tmp_path_factory.mktemp("ceiling")
  _write_rows(found)
  for name in ("0", "1", _DIVERGED):
    _make(found / "runs" / name, _spec(found, seed=int(name), data_seed=0))
  (found / "deep.py").write_text(_HIDDEN)
  deep = _spec(found).replace(
    task_options={"file": str(found / "classes.npz")},
    model=f"{found / 'deep.py'}:build",
  )
  _make(found / "deep" / "0", deep)
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(Run, "weights", _weights)
    yield found


@pytest.fixture(scope="module")
def found(folder):
  return experiments.ceiling(folder / "runs", radius=_RADIUS, tell=len)


def test_runs_lie_above_the_ceiling_of_their_data(found):
  data, least = found.data.iloc[0], found.least.set_index("risk")
  assert (len(found.data), data.num_clients, data.loss) == (1, 4, "softmax")
  assert (data.num_weights, data.radius, data.representation) == (12, 10.0, "")
  assert (found.least["gap"] <= 1e-4).all()
  assert (found.least["bound"] <= found.least["value"]).all()
  assert (found.least["norm"] <= _RADIUS + 1e-9).all()
  assert len(found.runs) == 2
  for risk in ("mean", "tail", "largest"):
    bound = least.loc[risk, "bound"]
    assert (found.runs[risk] >= bound).all()
    np.testing.assert_allclose(
      found.runs[f"excess_{risk}"], found.runs[risk] - least.loc[risk, "value"]
    )
    assert least.loc[risk, risk] == pytest.approx(least.loc[risk, "value"])
  front = found.least[found.least["risk"] != "largest"].sort_values("s")
  assert (np.diff(front["tail"]) <= 2e-3).all()
  assert (np.diff(front["mean"]) >= -2e-3).all()


def test_the_losses_of_a_run_are_those_of_its_model_on_its_rows(found, folder):
  run = experiments.open_run(folder / "runs" / "1")
  task, (kernel, bias) = task_loading.load(run.spec), run.weights()
  losses = {"train": [], "test": []}
  for k in range(_NUM_CLIENTS):
    for half, of_clients in losses.items():
      x, y = getattr(task, half).load(k)
      z = x.astype(np.float64) @ kernel + bias
      log_sums = np.log(np.exp(z).sum(1))
      of_clients.append((log_sums - z[np.arange(len(y)), y]).mean())
  row = found.runs.set_index("seed").filter(like="1", axis=0).iloc[0]
  assert row["mean"] == pytest.approx(np.mean(losses["train"]), abs=1e-6)
  assert row["tail"] == pytest.approx(np.max(losses["train"]), abs=1e-6)
  assert row["test_mean"] == pytest.approx(np.mean(losses["test"]), abs=1e-6)


def test_the_words_the_json_and_the_page_have_the_numbers(found):
  least = found.least.set_index("risk")["value"]
  said = presenting.text(found)
  assert f"{least['tail']:.4f}" in said
  assert "FedAvg" in said
  content = parsing.parse_json(presenting.json(found))
  assert content["share"] == 0.1
  assert [row["risk"] for row in content["least"]].count("front") == 4
  assert content["least"][0]["value"] == least["mean"]
  assert len(content["runs"]) == 2
  page = presenting.page(found)
  assert page.count('class="marker"') == 3  # Two runs, and the legend.
  assert f"{least['tail']:.4f}" in page


def test_a_run_that_diverged_is_left_out_and_named(found, folder):
  assert str(folder / "runs" / _DIVERGED) not in [*found.runs["path"]]
  assert any(f"runs/{_DIVERGED}:" in note for note in found.notes)


def test_runs_whose_data_changed_are_left_out_and_named(folder, tmp_path):
  for name in ("0", "1"):
    path = tmp_path / name
    shutil.copytree(folder / "runs" / name, path)
    if name == "1":
      config = json.loads((path / "config.json").read_text())
      config["data_digests"] = {"classes.npz": "0"}
      (path / "config.json").write_text(json.dumps(config))

  found = experiments.ceiling(tmp_path, tell=len)

  assert [*found.runs["path"]] == [str(tmp_path / "0")]
  assert any(f"{tmp_path / '1'}:" in note for note in found.notes)


def test_tables_and_pages_show_the_ceiling_beside_runs(found, folder):
  outcome = in_process.run(
    program, str(folder / "runs"), f"--radius={_RADIUS:g}"
  )
  assert outcome.status == 0

  compared = experiments.compare(folder / "runs").iloc[0]
  for risk in ("mean", "tail", "largest"):
    expected = found.runs[f"excess_{risk}"].mean()
    assert compared[f"above_least_{risk}"] == pytest.approx(expected, abs=1e-4)
  section = page_parts.drawn(presenting.build_section, folder / "runs")
  assert len(page_parts.with_class(section, "marker")) == 2


@pytest.mark.parametrize(
  "change",
  [
    lambda content: content["of"].update(seed="7"),
    lambda content: content["of"].update(rounds=9),
    lambda content: content.update(share=0.2),
    lambda content: content.pop("least"),
    lambda content: content["runs"][0].update(excess_tail="much"),
    lambda content: content["runs"][0].update(excess_tail=float("nan")),
    lambda content: content["least"][0].update(value=float("nan")),
    lambda content: content["least"][0].update(risk="least"),
    lambda content: content.update(least=[]),
    lambda content: content.update(share="a"),
    lambda content: content.update(share=None),
    lambda content: content.update(weighting=3),
  ],
)
def test_a_ceiling_of_something_else_is_named_and_not_shown(
  found, folder, change
):
  ceiling_records.write(found)
  file = folder / "runs" / "1" / "ceiling.json"
  content = json.loads(file.read_text())
  change(content)
  file.write_text(json.dumps(content))

  compared = experiments.compare(folder / "runs")

  expected = found.runs["excess_tail"][0]
  assert compared["above_least_tail"].iloc[0] == pytest.approx(
    expected, abs=1e-4
  )
  assert sum(str(file) in note for note in compared.attrs["notes"]) == 1
  section = page_parts.drawn(presenting.build_section, folder / "runs")
  assert str(file) in page_parts.words(section)


def test_weights_of_clients_change_the_mean_alone(found, folder):
  other = experiments.ceiling(
    folder / "runs", radius=_RADIUS, weighting="num_examples", tell=len
  )
  before, after = (f.least.set_index("risk")["value"] for f in (found, other))
  assert after["largest"] == pytest.approx(before["largest"], abs=2e-4)


def test_a_deep_model_has_the_ceiling_of_its_representation(folder):
  found = experiments.ceiling(folder / "deep", radius=3.0, trust=True, tell=len)
  data = found.data.iloc[0]
  assert data.representation == str(folder / "deep" / "0")
  assert data.num_weights == 5 * 3
  least = found.least.set_index("risk")["bound"]
  assert found.runs["mean"].iloc[0] >= least["mean"]
  options = _spec(folder, model="mlp_128").task_options
  with rejected("model"):
    experiments.ceiling(task="arrays", task_options=options, tell=len)


_NO_BIASES = """
import tensorflow as tf

def build(input_shape, num_classes):
  return tf.keras.Sequential([
    tf.keras.layers.InputLayer(input_shape),
    tf.keras.layers.Dense(2, "relu", use_bias=False),
    tf.keras.layers.Dense(num_classes, use_bias=False),
  ])
"""


def test_each_run_has_its_own_representation(folder, tmp_path, monkeypatch):
  (tmp_path / "mine.py").write_text(_NO_BIASES)
  options = {"file": str(folder / "classes.npz")}
  model = f"{tmp_path}/mine.py:build"
  spec = _spec(folder).replace(task_options=options, model=model)
  for seed in (1, 2):
    _make(tmp_path / f"{seed}", spec.replace(seed=seed, data_seed=0))
  monkeypatch.setattr(
    Run,
    "weights",
    lambda run: [np.full((3, 2), run.seed), np.full((2, 3), run.seed)],
  )

  problems, _ = ceiling_problems.of_runs(tmp_path, trust=True)

  for seed, problem in enumerate(problems, 1):
    assert problem.representation == str(tmp_path / f"{seed}")
    assert [one.run.seed for one in problem.runs] == [seed]
  first, second = (problem.train.x for problem in problems)
  np.testing.assert_allclose(second, 2 * first, rtol=1e-6)


def test_other_data_or_participants_are_another_problem(folder, tmp_path):
  spec = _spec(folder, data_seed=0)
  _make(tmp_path / "0", spec)
  _make(tmp_path / "3", spec.replace(validation_fraction=0.2))
  for seed in (4, 5):
    path, unseen = tmp_path / f"{seed}", seed - 4
    _make(path, spec.replace(seed=seed, unseen_clients="0.25"))
    rows = [f"{k},{k == unseen}\n" for k in range(_NUM_CLIENTS)]
    (path / "clients.csv").write_text("client_id,unseen\n" + "".join(rows))

  problems, notes = ceiling_problems.of_runs(tmp_path, trust=False)
  assert not notes

  titles = {p.runs[0].run.path.name: p.title for p in problems}
  assert len(problems) == 4
  assert titles["4"] == titles["5"]
  assert len({*titles.values()}) == 3


def test_numbers_have_squared_errors(folder):
  options = _spec(folder, "numbers").task_options
  found = experiments.ceiling(task="arrays", task_options=options, tell=len)
  assert found.data.iloc[0].loss == "squared"
  assert found.runs.empty
  task = task_loading.load(_spec(folder, "numbers"))
  rows = [task.train.load(k) for k in range(_NUM_CLIENTS)]
  # Weighted least squares, in which all clients have the same weight.
  scale = [np.full(len(y), len(y) ** -0.5) for _, y in rows]
  x = np.concatenate([np.c_[x, np.ones(len(x))] for x, _ in rows])
  y, w = np.concatenate([y for _, y in rows]), np.concatenate(scale)
  residuals = np.linalg.lstsq(x * w[:, None], y * w, rcond=None)[1]
  expected = float(residuals[0]) / _NUM_CLIENTS
  value = found.least.set_index("risk").loc["mean", "value"]
  assert value == pytest.approx(expected, abs=1e-4 * y.var())


def test_refuses_what_does_not_go_together(folder):
  for name, arguments in (
    ("task", {}),
    ("task", {"runs": folder / "runs", "task": "digits"}),
    ("task_options", {"runs": folder / "runs", "task_options": {"a": 1}}),
    ("data_dir", {"runs": folder / "runs", "data_dir": "data"}),
    ("seed", {"runs": folder / "runs", "seed": 1}),
    ("model", {"runs": folder / "runs", "model": "linear"}),
    ("share", {"task": "digits", "share": 0.0}),
    ("weighting", {"task": "digits", "weighting": "none"}),
    ("weighting", {"runs": folder / "runs", "weighting": "column"}),
    ("radius", {"task": "digits", "radius": -1.0}),
  ):
    with rejected(name):
      experiments.ceiling(**arguments, tell=len)
