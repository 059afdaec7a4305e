"""Tests of runs that compare clients by other scores than accuracy."""

import functools
import shutil

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import softmax
from sklearn import metrics as sklearn_metrics

import tasks
from tasks import models
from tests.experiments.training.small_run import train_on
from tests.refusals import rejected
from tff_fair import experiments
from tff_fair.experiments import RunSpec
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.texts import fairness_table, sentences
from tff_fair.experiments.training import baselines, build, plan, scoring
from tff_fair.metrics import gains

pytestmark = pytest.mark.usefixtures("unpainted")

_MEASURES = (
  *("balanced_accuracy", "average_precision", "f1", "precision", "recall"),
  *("brier", "log_loss", "calibration_error"),
)
_SPEC = RunSpec(
  task="digits",  # Replaced by the task below.
  algorithm="fedavg",
  score="auc",
  measures=_MEASURES,
  client_learning_rate=0.3,
  clients_per_round=3,
  total_rounds=2,
  rounds_per_evaluation=1,
  criterion="worst_10",
  local_baseline=True,
  pooled_baseline=True,
  threshold_for="f1",
)
_NUM_CLIENTS = 5
_ROUNDS_ALONE = 5  # Of the local baselines, which need not be good.


def illness():
  """Returns a task of patients of whom one in eight is ill.

  Nobody is ill in the last hospital's test data.
  """
  generator = np.random.default_rng(0)
  halves = []
  for number in (40, 60):
    arrays = []
    for client in range(_NUM_CLIENTS):
      y = (generator.random(number) < 0.125).astype(np.int32)
      y[:2] = 0, 1
      x = generator.normal(0, 1, [number, 3]) + 0.8 * y[:, None]
      if number == 60 and client == _NUM_CLIENTS - 1:
        y[:] = 0
      arrays.append((x.astype(np.float32), y))
    halves.append(
      tasks.Split(
        num_examples=np.full(_NUM_CLIENTS, number), load=arrays.__getitem__
      )
    )
  return tasks.Task(
    name="illness",
    description="500 patients of 5 hospitals",
    client_names=[f"hospital {k}" for k in range(_NUM_CLIENTS)],
    train=halves[0],
    test=halves[1],
    element_spec=tasks.task.element_spec([3]),
    num_classes=2,
    class_names=("healthy", "ill"),
    keras_model_fn=functools.partial(models.mlp, (3,), (), 2, 0),
    objective=models.class_objective(),
  )


@pytest.fixture(scope="module")
def task():
  return illness()


@pytest.fixture(scope="module")
def run(task, tmp_path_factory):
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(baselines, "_MOST_ROUNDS", _ROUNDS_ALONE)
    return train_on(task, _SPEC, tmp_path_factory.mktemp("runs") / "auc")


def expected(task, run):
  """Returns scikit-learn's scores of a logistic regression by NumPy."""
  kernel, bias = (np.asarray(w, np.float64) for w in run.weights())
  rows = []
  for client in range(_NUM_CLIENTS - 1):
    x, y = task.test.load(client)
    logits = np.float64(x) @ kernel + bias
    odds = logits[:, 1] - logits[:, 0]
    p, predicted = 1 / (1 + np.exp(-odds)), odds > 0
    of_class = {"zero_division": 0}
    rows.append(
      {
        "accuracy": sklearn_metrics.accuracy_score(y, predicted),
        "balanced_accuracy": sklearn_metrics.balanced_accuracy_score(
          y, predicted
        ),
        "auc": sklearn_metrics.roc_auc_score(y, odds),
        "average_precision": sklearn_metrics.average_precision_score(y, odds),
        "f1": sklearn_metrics.f1_score(y, predicted, **of_class),
        "precision": sklearn_metrics.precision_score(y, predicted, **of_class),
        "recall": sklearn_metrics.recall_score(y, predicted),
        "brier": sklearn_metrics.brier_score_loss(y, p),
        "log_loss": sklearn_metrics.log_loss(y, p),
      }
    )
  return rows


def test_the_columns_of_evaluations_are_the_measures(task, run):
  table = run.client_evaluations
  assert set(table) == {
    *("round", "client_id", "num_examples", "loss"),
    *("auc", "accuracy", *_MEASURES),
  }
  last = table[table["round"] == 2].set_index("client_id")
  for client, row in enumerate(expected(task, run)):
    for name, value in row.items():
      # Among the 60 examples, some pairs may share a bin of the histogram.
      near = 0.005 if name in ("auc", "average_precision") else 1e-5
      assert last[name][client] == pytest.approx(value, abs=near), name


def test_a_client_with_one_class_is_left_out_and_counted(run):
  last = run.client_evaluations.iloc[-1]
  missing = last.index[last.isna()]
  assert set(missing) == {
    *("auc", "average_precision", "f1", "precision", "recall")
  }
  summary = run.summary
  assert summary["num_clients"] == _NUM_CLIENTS
  assert summary["score"] == "auc"
  for name in missing:
    assert summary[f"test_{name}"]["left_out"] == 1
  assert summary["test_brier"]["left_out"] == 0
  table = run.client_evaluations
  values = table[table["round"] == 2]["auc"].dropna()
  assert summary["test_auc"]["mean"] == pytest.approx(values.mean())
  assert summary["test_auc"]["worst_10"] == pytest.approx(values.min())
  text = fairness_table.describe(summary)
  assert "Clients left out: 1 (hospital 4)" in " ".join(text.split())
  # Sampling noise is known only for accuracies.
  assert "test_accuracy_noise" not in summary


def test_the_score_decides_the_best_round(run):
  means = run.evaluations.set_index("round")["auc/worst_10"].iloc[1:]
  assert run.summary["best"]["value"] == pytest.approx(means.max())
  assert run.summary["best"]["round"] == means.idxmax()


def test_the_threshold_is_the_best_on_training_data(task, run):
  found = run.summary["threshold"]
  assert (found["class"], found["goal"]) == ("ill", "f1")
  kernel, bias = (np.asarray(w, np.float64) for w in run.weights())

  def scores(half, least):
    """Returns F1 over all clients' rows, and the mean of the clients' F1."""
    of_clients = [half.load(client) for client in range(_NUM_CLIENTS)]
    decided = [
      softmax(x @ kernel + bias, -1)[:, 1] >= least for x, _ in of_clients
    ]
    y = [of_client[1] for of_client in of_clients]
    f1 = sklearn_metrics.f1_score
    own = [f1(a, b) for a, b in zip(y, decided, strict=True) if a.any()]
    return f1(np.concatenate(y), np.concatenate(decided)), np.mean(own)

  best, _ = scores(task.train, found["probability"])
  assert best >= max(scores(task.train, p / 50)[0] for p in range(1, 50)) - 0.01
  for name, least in (("test", found["probability"]), ("test_at_half", 0.5)):
    assert found[name] == pytest.approx(scores(task.test, least)[1], abs=0.02)
  (sentence,) = sentences.threshold(run.summary)
  assert "Decide for class ill (number 1)" in sentence


@pytest.mark.parametrize(
  ("name", "positive"), [("model.keras", 0), ("saved", 1)]
)
def test_an_exported_model_decides_by_the_threshold(
  task, run, tmp_path, monkeypatch, name, positive
):
  monkeypatch.setitem(run.summary["threshold"], "probability", 0.3)
  monkeypatch.setitem(run.summary["threshold"], "class_number", positive)
  exported = experiments.export(run, tmp_path / name)
  kernel, bias = run.weights()
  audit = experiments.audit(exported.path, task)
  assert "own threshold" in audit.about
  num_changed = 0
  for client, correct in enumerate(audit.clients["correct"]):
    x, y = task.test.load(client)
    p = softmax(x @ kernel + bias, axis=1)[:, positive]
    decided = (p >= 0.3) == positive
    num_changed += (decided != ((p >= 0.5) == positive)).sum()
    assert correct == (decided == y).sum()
  assert num_changed > 0
  assert 'outputs["predicted_class"].numpy()' in exported.card.read_text()


def test_the_threshold_is_of_the_last_model_alone(run, tmp_path, monkeypatch):
  monkeypatch.setitem(run.summary, "rounds", 3)
  exported = experiments.export(run, tmp_path / "model.keras")
  assert tf.keras.models.load_model(exported.path).output_names == [
    "probabilities"
  ]
  assert "this model has none" in exported.card.read_text()


@pytest.mark.parametrize(
  ("field", "value"),
  [("score", "rmse"), ("measures", "auc,mae"), ("score_class", "dead")],
)
def test_scores_of_other_labels_are_refused(task, field, value):
  with rejected(field):
    scoring.resolve(task, RunSpec(task="digits", **{field: value}))


@pytest.mark.parametrize(("given", "place"), [("ill", 1), ("0", 0)])
def test_a_class_is_named_or_numbered(task, given, place):
  spec = RunSpec(task="digits", score="recall", score_class=given)
  assert scoring.resolve(task, spec).positive_class == place


def test_accuracy_alone_needs_no_sums(task):
  spec = _SPEC.replace(score=None, measures=None)
  digits = tasks.load("digits", num_clients=2)
  assert scoring.resolve(digits, spec).sums is None
  # One in eight is ill: accuracies hide whether any of them is found.
  assert scoring.resolve(task, spec).score.extra_scores == ("recall",)
  with_recall = scoring.resolve(
    task, _SPEC.replace(score="recall", measures=())
  )
  assert not with_recall.sums.with_histogram


def test_clients_have_their_gain_from_joining(task, run):
  clients = run.clients.set_index("client_id")
  with np.load(run.path / "local_baseline.npz") as content:
    outputs = np.split(content["outputs"], np.cumsum(content["sizes"])[:-1])
    assert {*content["rates"]} <= {0.075, 0.3, 1.2}
    losses = content["losses"]
  assert losses.shape == (_NUM_CLIENTS,)
  (kernel, bias), p_values = run.weights(), []
  for client, row in enumerate(expected(task, run)):
    (x, y), logits = task.test.load(client), outputs[client]
    both = gains.Outputs(y, logits, x @ kernel + bias)
    gain = gains.client_gain("auc", both, positive=1, seed=(0, client))
    p_values.append(gain.p_value)
    # The linear model with these outputs has the saved loss on the client's
    # training examples.
    alone = np.linalg.lstsq(np.c_[x, np.ones(len(x))], logits, rcond=None)[0]
    examples, labels = task.train.load(client)
    p = softmax(np.c_[examples, np.ones(len(labels))] @ alone, axis=1)
    assert losses[client] == pytest.approx(
      sklearn_metrics.log_loss(labels, p), rel=1e-3
    )
    # Log odds in one bin of the histogram count as equal.
    bins = np.floor(64 * (logits[:, 1] - logits[:, 0]))
    found = clients.loc[client]
    assert found["local_auc"] == pytest.approx(
      sklearn_metrics.roc_auc_score(y, bins)
    )
    assert found["test_auc"] == pytest.approx(row["auc"], abs=0.01)
    difference = found["test_auc"] - found["local_auc"]
    assert found["gain"] == pytest.approx(difference, abs=1e-9)
    assert found["gain_low"] <= found["gain"] <= found["gain_high"]
    assert 0 < found["gain_p_value"] <= 1
    assert 0 <= found["pooled_auc"] <= 1
  # The p-values are corrected by Holm for four clients.
  corrected = np.maximum.accumulate(np.sort(p_values) * [4, 3, 2, 1])
  np.testing.assert_allclose(
    np.sort(clients["gain_p_value"])[:4], np.minimum(1, corrected), atol=0.02
  )
  columns = ["local_auc", "pooled_auc", "gain", "gain_p_value"]
  assert clients.loc[_NUM_CLIENTS - 1, columns].isna().all()
  joined = run.summary["joining"]
  assert joined["gaining"] + joined["losing"] + joined["undecided"] == 4
  assert joined["mean"] == pytest.approx(clients["gain"].mean())
  frame = experiments.compare(run, columns=["gain", "gaining"])
  assert frame["gaining"].iloc[0] == joined["gaining"]


@pytest.mark.long
def test_a_client_alone_takes_the_steps_of_local_training(task):
  """Epochs of full batches are steps of gradient descent."""
  spec = _SPEC.replace(
    total_rounds=4,
    batch_size=64,
    local_epochs=3,
    client_learning_rate_decay=0.5,
  )
  parts = build.run_parts(spec, task)
  baseline = baselines._train("local", spec, parts)
  x, y = task.train.load(2)
  order = np.random.default_rng((spec.seed, 2)).permutation(len(y))
  thirds = np.array_split(order, 3)
  initial = [w.numpy().astype(float) for w in task.keras_model_fn().weights]
  most = baselines.max_rounds(spec, parts)

  def after_rounds(rate, rows):
    """Yields the models after 0, 1, ... rounds of gradient descent."""
    kernel, bias = initial
    yield kernel, bias
    for round_num in range(most):
      # The decay of four rounds is spread over all rounds that are allowed.
      decayed = rate * 0.5 ** (round_num * 4 // most)
      for _ in range(3):
        p = softmax(x[rows] @ kernel + bias, axis=1)
        error = (p - np.eye(2)[y[rows]]) / len(rows)
        kernel = kernel - decayed * x[rows].T @ error
        bias = bias - decayed * error.sum(0)
      yield kernel, bias

  def until_patience_ends(rate):
    losses = []
    folds = [after_rounds(rate, np.setdiff1d(order, t)) for t in thirds]
    for of_round in zip(*folds, strict=True):
      losses.append(
        np.mean(
          [
            sklearn_metrics.log_loss(
              y[third], softmax(x[third] @ w + b, axis=1), labels=[0, 1]
            )
            for third, (w, b) in zip(thirds, of_round, strict=True)
          ]
        )
      )
      if len(losses) - 1 - int(np.argmin(losses)) >= 10:
        break
    return min(losses), int(np.argmin(losses)), rate

  _, best, rate = min(map(until_patience_ends, (0.075, 0.3, 1.2)))
  assert (baseline.rounds[2], baseline.rates[2]) == (best, rate)
  w, b = list(after_rounds(rate, np.arange(len(y))))[best]
  np.testing.assert_allclose(
    baseline.outputs[2], task.test.load(2)[0] @ w + b, atol=1e-5
  )
  assert baseline.losses[2] == pytest.approx(
    sklearn_metrics.log_loss(y, softmax(x @ w + b, axis=1)), rel=1e-5
  )


def test_another_run_of_a_sweep_takes_the_same_baseline(task, run, monkeypatch):
  monkeypatch.setattr(baselines, "_MOST_ROUNDS", _ROUNDS_ALONE)
  folder = RunFolder(run.path.parent / "other")
  folder.path.mkdir()
  shutil.copy(RunFolder(run.path).config, folder.config)
  damaged = RunFolder(run.path.parent / "another")
  damaged.path.mkdir()
  damaged.local_baseline.write_bytes(b"x")
  spec = _SPEC.replace(algorithm="term", score=None)
  parts = build.run_parts(spec, task)
  monkeypatch.delattr(baselines, "_train")
  found = baselines.train_or_load(folder, spec, parts, print)
  assert found.keys() == {"local", "pooled"}
  assert folder.local_baseline.exists()
  with pytest.raises(NameError):
    baselines.train_or_load(
      folder, spec.replace(client_learning_rate=0.2), parts, print
    )


@pytest.mark.long
def test_a_rule_gets_the_gap_to_the_client_alone(task, tmp_path):
  spec = _SPEC.replace(
    algorithm="vred",
    score=None,
    measures=None,
    criterion=None,
    loss_reference="local",
    local_baseline=False,
    pooled_baseline=False,
    sampling="all",
    clients_per_round=None,
    total_rounds=1,
  )
  found = train_on(task, spec, tmp_path / "gaps")
  with np.load(tmp_path / "gaps" / "local_baseline.npz") as content:
    alone = content["losses"]
  initial = task.keras_model_fn()
  gaps = []
  for client in range(_NUM_CLIENTS):
    x, y = task.train.load(client)
    p = softmax(initial(x).numpy(), axis=1)
    gaps.append(sklearn_metrics.log_loss(y, p) - alone[client])
  assert found.cohorts is not None
  coefficients = found.cohorts.set_index("client_id")["coefficient"]
  deviation = np.array(gaps) - np.mean(gaps)
  beta = float(spec.all_hparams["beta"] or 0)
  np.testing.assert_allclose(
    coefficients, (1 + 2 * beta * deviation) / _NUM_CLIENTS, rtol=1e-4
  )
  mean = found.rounds["aggregator/loss_mean"].iloc[0]
  assert mean == pytest.approx(np.mean(gaps), rel=1e-4)
  assert found.clients is not None
  assert "gain" in found.clients


def test_other_methods_refuse_gaps(task):
  spec = RunSpec(task="digits", algorithm="qfedavg", loss_reference="local")
  with rejected("loss_reference"):
    plan.check(spec, task)
