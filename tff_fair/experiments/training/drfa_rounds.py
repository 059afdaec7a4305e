"""Runs DRFA's own steps: draws cohorts by its lambda, and updates lambda."""

from collections.abc import Callable, Sequence

import numpy as np

from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.training import build, rounds, sampling
from tff_fair.methods import drfa, rule_state

METHOD = "drfa"
Losses = Callable[[rounds.State, Sequence[int]], np.ndarray]


class MixtureAscent:
  """DRFA's steps before and after each round; the run's state holds lambda."""

  def __init__(
    self,
    spec: RunSpec,
    parts: build.RunParts,
    sampler: sampling.Sampler,
    losses: Losses,
  ) -> None:
    assert spec.local_steps is not None  # `plan.check` guarantees it.
    self._sampler = sampler
    # Whether each client may take part, bool[clients].
    self._among = sampling.participates(parts.first_rounds)
    self._losses = losses
    self._learning_rate = float(str(spec.all_hparams["lambda_learning_rate"]))
    self._num_steps = int(spec.local_steps)

  def prepare_initial_state(self, state: rounds.State) -> rounds.State:
    """Returns the initial state with lambda uniform over the participants."""
    mixture = self._among / np.sum(self._among)
    return rule_state.with_values(state, mixture=mixture)

  def before_round(self, state: rounds.State) -> None:
    """Lets the sampler draw the next cohort by the lambda of `state`."""
    self._sampler.mixture = np.asarray(rule_state.get(state)["mixture"])

  def after_round(
    self, before: rounds.State, after: rounds.State, round_num: int
  ) -> rounds.State:
    """Returns `after` with lambda updated by the losses of a second cohort."""
    at_snapshot = before._replace(
      global_model_weights=drfa.theta_at_snapshot(before, after)
    )
    client_ids = self._sampler.draw_second_cohort(round_num)
    return drfa.with_losses(
      after,
      np.asarray(self._losses(at_snapshot, client_ids), np.float64),
      client_ids,
      self._among,
      learning_rate=self._learning_rate,
      num_steps=self._num_steps,
    )
