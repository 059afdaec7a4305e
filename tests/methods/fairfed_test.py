"""Tests of FairFed's weights, in its rule and in a run, against NumPy loops."""

import numpy as np
import pytest

from tests.experiments.training.small_run import train
from tests.methods import cohorts, in_graph
from tests.refusals import rejected
from tff_fair import experiments
from tff_fair.experiments import RunSpec
from tff_fair.experiments.spec import task_loading
from tff_fair.methods import fairfed
from tff_fair.metrics import group_gaps

BETA = 0.4
NUM_CLIENTS = 5


def by_hand(weights, shares, deviations, beta=BETA):
  """Updates the cohort's `weights`; returns them scaled to a sum of 1."""
  mean = sum(deviations.values()) / len(deviations)
  for k, deviation in deviations.items():
    before = weights.get(k, shares[k])
    weights[k] = max(0.0, before - beta * (deviation - mean))
  total = sum(weights[k] for k in deviations)
  return [weights[k] / total for k in deviations]


def test_weights_of_rounds_are_those_of_a_loop():
  rng = np.random.default_rng(0)
  beta = 2.0
  rule = fairfed.FairFedRule(num_clients=NUM_CLIENTS, beta=beta)
  state = {k: np.asarray(v) for k, v in rule.initialize().items()}
  weights: dict[int, float] = {}
  floors = 0
  for ids in ((0, 3, 4), (1, 3), (4, 2, 0), (0, 1, 2, 3, 4)):
    sizes = rng.integers(1, 50, len(ids))
    deviations = dict(zip(ids, rng.uniform(0, 1, len(ids)), strict=True))
    state["deviations"] = np.array(state["deviations"])
    state["deviations"][list(ids)] = [*deviations.values()]
    cohort = cohorts.of_losses(
      np.ones(len(ids)), sizes, client_id=np.array(ids)
    )
    output = in_graph.apply(rule, cohort, state)
    shares = dict(zip(ids, sizes / sizes.sum(), strict=True))
    np.testing.assert_allclose(
      output.coefficients,
      by_hand(weights, shares, deviations, beta),
      rtol=1e-12,
    )
    state = dict(output.state)
    floors += min(weights.values()) == 0
  assert floors


def gap_by_hand(y, predicted, groups):
  """Returns the range of groups' true positive rates; None for one group."""
  rates = [
    np.mean(predicted[(groups == g) & (y == 1)])
    for g in np.unique(groups[y == 1])
  ]
  return max(rates) - min(rates) if len(rates) > 1 else None


def deviations_by_hand(clients):
  everything = [np.concatenate(column) for column in zip(*clients, strict=True)]
  whole = gap_by_hand(*everything)
  accuracy = np.mean(everything[0] == everything[1])
  found = []
  for y, predicted, groups in clients:
    own = gap_by_hand(y, predicted, groups)
    found.append(
      abs(np.mean(y == predicted) - accuracy)
      if own is None
      else abs(own - whole)
    )
  return found


def test_deviations_are_those_of_a_loop_over_examples():
  rng = np.random.default_rng(1)
  clients = [tuple(rng.integers(0, n, 60) for n in (2, 2, 3)) for _ in range(4)]
  # The last client has positive examples of one group only.
  clients.append((clients[0][0], clients[0][1], np.zeros(60, int)))
  counts = [group_gaps.count(y, found, g, 3, 1) for y, found, g in clients]
  np.testing.assert_allclose(
    group_gaps.deviations("equal_opportunity", counts),
    deviations_by_hand(clients),
    atol=1e-15,
  )


def spec_of(folder):
  """Returns the spec of a run; one of its two groups is harder to predict."""
  rng = np.random.default_rng(3)
  group = np.array(["f", "m"])[(rng.random(600) < 0.6).astype(int)]
  client = np.array(["a", "b", "c"])[rng.integers(0, 3, 600)]
  group[client == "c"] = "m"  # Client c has no gap to measure.
  y = rng.integers(0, 2, 600)
  x = (2 * y - 1) * np.where(group == "m", 3, 0.3) + rng.normal(0, 1, 600)
  np.savez(
    folder / "people.npz",
    x=np.float32(x[:, None]),
    y=y,
    client=client,
    group=group,
  )
  return RunSpec(
    task="arrays",
    task_options={"file": str(folder / "people.npz")},
    algorithm="fairfed",
    hparams={"beta": BETA},
    client_learning_rate=0.3,
    clients_per_round=2,
    total_rounds=4,
    score_class="1",
  )


class Models(experiments.RoundCallback):
  """Keeps the weights of the global model after each round."""

  def __init__(self):
    self.weights = {}

  def on_round(self, state):
    self.weights[state.round_num] = state.model_weights.trainable

  def on_evaluation(self, state):
    if not state.round_num:
      self.on_round(state)


@pytest.mark.usefixtures("unpainted")
def test_a_run_weighs_by_the_gaps_on_training_examples(tmp_path):
  spec, models = spec_of(tmp_path), Models()
  run = train(spec, tmp_path / "run", callbacks=[models])
  task, weights = task_loading.load(spec), {}
  assert run.cohorts is not None
  for round_num, rows in run.cohorts.groupby("round"):
    kernel, bias = models.weights[round_num - 1]
    ids, clients = rows["client_id"].tolist(), []
    for k in ids:
      x, y = task.train.load(k)
      assert task.train.groups is not None
      predicted = (np.float64(x) @ kernel + bias).argmax(1)
      clients.append((y, predicted, task.train.groups(k)))
    deviations = dict(zip(ids, deviations_by_hand(clients), strict=True))
    sizes = task.train.num_examples[ids]
    shares = dict(zip(ids, sizes / sizes.sum(), strict=True))
    np.testing.assert_allclose(
      rows["coefficient"], by_hand(weights, shares, deviations), atol=1e-6
    )
  assert len(weights) == 3


@pytest.mark.parametrize("algorithm", ["fairfed", "fedminmax"])
def test_data_without_groups_are_refused(algorithm, tmp_path):
  with rejected("algorithm", value=algorithm):
    train(RunSpec(task="digits", algorithm=algorithm), tmp_path)
