"""Tests of ceilings of tasks and runs; of the mathematics, metrics has them."""

import numpy as np
import pytest

from tff_fair import experiments
from tff_fair.declared import FieldError
from tff_fair.experiments import RunSpec
from tff_fair.experiments.presenting import ceiling as presenting
from tff_fair.files import parsing

pytestmark = pytest.mark.program

_NUM_CLIENTS, _RADIUS = 4, 10.0


def _write_rows(folder):
  """Writes rows of clients with two or three classes, and numbers."""
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  found = tmp_path_factory.mktemp("ceiling")
  _write_rows(found)
  for seed in range(2):
    spec = _spec(found, seed=seed, data_seed=0)
    experiments.run(spec, found / "runs" / f"{seed}", progress=False)
  spec = _spec(found, model="mlp_128")
  experiments.run(spec, found / "deep", progress=False)
  return found


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
      found.runs[f"excess_{risk}"],
      found.runs[risk] - least.loc[risk, "value"],
    )
    assert least.loc[risk, risk] == pytest.approx(least.loc[risk, "value"])
  front = found.least[found.least["risk"] != "largest"].sort_values("s")
  assert (np.diff(front["tail"]) <= 2e-3).all()
  assert (np.diff(front["mean"]) >= -2e-3).all()


def test_the_losses_of_a_run_are_those_of_its_model_on_its_rows(found, folder):
  run = experiments.open_run(folder / "runs" / "1")
  from tff_fair.experiments.spec import task_loading  # noqa: PLC0415

  task, model = task_loading.load(run.spec), run.model()
  losses = {"train": [], "test": []}
  for k in range(_NUM_CLIENTS):
    for half, of_clients in losses.items():
      x, y = getattr(task, half).load(k)
      z = model(x).numpy().astype(np.float64)
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


def test_weights_of_clients_change_the_mean_alone(found, folder):
  other = experiments.ceiling(
    folder / "runs", radius=_RADIUS, weighting="num_examples", tell=len
  )
  before, after = (f.least.set_index("risk")["value"] for f in (found, other))
  assert after["largest"] == pytest.approx(before["largest"], abs=2e-4)


def test_a_deep_model_has_the_ceiling_of_its_representation(folder):
  found = experiments.ceiling(folder / "deep", tell=len)
  data = found.data.iloc[0]
  assert data.representation == str(folder / "deep")
  assert data.num_weights == 129 * 3
  least = found.least.set_index("risk")["bound"]
  assert found.runs["mean"].iloc[0] >= least["mean"]
  with pytest.raises(FieldError) as caught:
    experiments.ceiling(
      task="arrays",
      task_options=_spec(folder, model="mlp_128").task_options,
      tell=len,
    )
  assert caught.value.field == "model"


def test_numbers_have_squared_errors(folder):
  options = _spec(folder, "numbers").task_options
  found = experiments.ceiling(task="arrays", task_options=options, tell=len)
  assert found.data.iloc[0].loss == "squared"
  assert found.runs.empty
  from tff_fair.experiments.spec import task_loading  # noqa: PLC0415

  task = task_loading.load(_spec(folder, "numbers"))
  rows = [task.train.load(k) for k in range(_NUM_CLIENTS)]
  # Weighted least squares: each client counts once.
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
    ("share", {"task": "digits", "share": 0.0}),
    ("weighting", {"task": "digits", "weighting": "none"}),
    ("weighting", {"runs": folder / "runs", "weighting": "column"}),
    ("radius", {"task": "digits", "radius": -1.0}),
  ):
    with pytest.raises(FieldError) as caught:
      experiments.ceiling(**arguments, tell=len)
    assert caught.value.field == name
