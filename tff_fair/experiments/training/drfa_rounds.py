"""DRFA in a run: cohorts by lambda, and the step of lambda after each round."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.training import build, rounds, sampling
from tff_fair.methods import drfa, rule_state

METHOD = "drfa"
Losses = Callable[[rounds.State, Sequence[int]], np.ndarray]


@dataclasses.dataclass(frozen=True)
class MixtureAscent:
  """The steps before and after the rounds of DRFA."""

  sampler: sampling.Sampler
  among: np.ndarray  # bool[N], those that may take part.
  losses: Losses  # Of a state's global model.
  learning_rate: float  # gamma.
  num_steps: int  # K of the local steps.

  @classmethod
  def of_run(
    cls,
    spec: RunSpec,
    parts: build.RunParts,
    sampler: sampling.Sampler,
    losses: Callable[[], Losses],
  ) -> "MixtureAscent | None":
    """Returns the ascent of a DRFA run; None for other methods."""
    if spec.algorithm != METHOD:
      return None
    assert spec.local_steps is not None  # The spec has looked.
    return cls(
      sampler,
      parts.first_rounds < sampling.NEVER,
      losses(),
      float(str(spec.all_hparams["lambda_learning_rate"])),
      int(spec.local_steps),
    )

  def begin(self, state: rounds.State) -> rounds.State:
    """Returns the first state, with equal shares of those that take part."""
    mixture = self.among / np.sum(self.among)
    return rule_state.replaced(state, mixture=mixture)

  def before_round(self, state: rounds.State) -> None:
    """Sets the sampler's lambda for the next cohort."""
    self.sampler.mixture = np.asarray(rule_state.of(state)["mixture"])

  def after_round(
    self, before: rounds.State, after: rounds.State, round_num: int
  ) -> rounds.State:
    """Returns the state after the step of lambda."""
    at_snapshot = before._replace(
      global_model_weights=drfa.theta_at_snapshot(before, after)
    )
    client_ids = self.sampler.second(round_num)
    return drfa.with_losses(
      after,
      np.asarray(self.losses(at_snapshot, client_ids), np.float64),
      client_ids,
      self.among,
      learning_rate=self.learning_rate,
      num_steps=self.num_steps,
    )
