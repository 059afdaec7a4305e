"""Tests of the updates of clients, against a client loop in NumPy."""

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

import tasks
from tests.cases import one_of_each
from tests.experiments.training.small_run import SMALL, check_same, train
from tests.refusals import rejected
from tff_fair.experiments import RoundCallback

pytestmark = pytest.mark.usefixtures("compiled_here", "unpainted")

RATE, EPOCHS = 0.2, 2
# A step takes all examples of a client, so that their order has no effect.
SPEC = SMALL.replace(
  batch_size=2000,
  local_epochs=EPOCHS,
  client_learning_rate=RATE,
  total_rounds=2,
  save_updates=2,
)


class Updates(RoundCallback):
  """Keeps the model before each round, and the updates of its clients."""

  wants = {"updates"}  # noqa: RUF012

  def __init__(self):
    self.models, self.updates = [], []

  def on_evaluation(self, state):
    if not state.round_num:
      self.models.append(state.model_weights.trainable)

  def on_round(self, state):
    self.models.append(state.model_weights.trainable)
    self.updates.append(state.updates)


def trained(model, x, y):
  """Returns a client's update and losses by NumPy, in float64."""
  w, b = (np.array(part, np.float64) for part in model)
  x = x.reshape(len(x), -1).astype(np.float64)
  losses = []
  for _ in range(EPOCHS):
    logits = x @ w + b
    losses.append(-log_softmax(logits, axis=1)[np.arange(len(y)), y].mean())
    errors = (softmax(logits, axis=1) - np.eye(10)[y]) / len(y)
    w, b = w - RATE * x.T @ errors, b - RATE * errors.sum(0)
  begin = np.concatenate([part.ravel() for part in model])
  return begin - np.concatenate([w.ravel(), b]), losses[0]


@pytest.mark.parametrize(
  "settings",
  one_of_each(
    [
      {"algorithm": "fedavg"},  # Updates are summed.
      {"algorithm": "fedmgda_plus"},  # Updates are stacked.
    ]
  ),
  ids=str,
)
def test_updates_are_those_of_a_client_loop(tmp_path, settings):
  followed = Updates()
  spec = SPEC.replace(**settings)
  run = train(spec, tmp_path / "run", callbacks=[followed])
  task = tasks.load(spec.task, **spec.task_options)
  assert run.cohorts is not None
  for number, found in enumerate(followed.updates, 1):
    cohort = run.cohorts[run.cohorts["round"] == number]
    assert found.client_id.tolist() == cohort["client_id"].tolist()
    for k, update, loss, examples in zip(
      found.client_id,
      found.updates,
      found.signals["loss"],
      found.signals["num_examples"],
      strict=True,
    ):
      x, y = task.train.load(int(k))
      wanted, wanted_loss = trained(followed.models[number - 1], x, y)
      np.testing.assert_allclose(update, wanted, atol=2e-6)
      assert loss == pytest.approx(wanted_loss, rel=1e-5)
      assert examples == len(y)
  # The files hold the same updates.
  (path,) = (run.path / "updates").iterdir()
  assert path.name == "round_000002.npz"
  with np.load(path) as saved:
    last = followed.updates[-1]
    check_same(
      [saved["client_id"], saved["updates"], saved["loss"]],
      [last.client_id, last.updates, last.signals["loss"]],
    )
  if settings["algorithm"] == "fedavg":
    other = train(spec.replace(save_updates=None), tmp_path / "other")
    check_same(run.weights(), other.weights())
    assert run.rounds.equals(other.rounds)


@pytest.mark.parametrize(
  "settings",
  [
    {"aggregation": "secure"},
    {"dp_noise": 1.0, "dp_clip": 0.5, "client_weighting": "uniform"},
  ],
)
def test_hidden_updates_are_refused(tmp_path, settings):
  with rejected("save_updates"):
    SPEC.replace(**settings)
  spec = SMALL.replace(**settings)
  with rejected("callbacks", "hides"):
    train(spec, tmp_path / "run", callbacks=[Updates()])
  assert not (tmp_path / "run").exists()


def test_an_unknown_wish_is_refused(tmp_path):
  class Other(Updates):
    wants = {"gradients"}  # noqa: RUF012

  with rejected("callbacks", "'gradients'"):
    train(SMALL, tmp_path / "run", callbacks=[Other()])
