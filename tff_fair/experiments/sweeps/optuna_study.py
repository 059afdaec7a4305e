"""Suggests settings and prunes runs with Optuna, given the earlier trials.

Optuna's samplers draw from a random state, which an interrupted search would
lose. So each suggestion here comes from a new study in memory: it contains the
earlier trials, and its sampler's seed depends on the search's seed and the
number of the trial. Thus the same earlier trials lead to the same suggestion,
however often the search was interrupted.

Only searches import this module, since Optuna is an optional package.
"""

import contextlib
import dataclasses
import itertools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
import optuna
import pandas as pd
from optuna import distributions, pruners, samplers
from optuna.trial import TrialState

from tff_fair.declared import FieldError
from tff_fair.experiments.runs.run import ROUND, Run
from tff_fair.experiments.spec import seeds
from tff_fair.experiments.spec.scores import Score
from tff_fair.experiments.sweeps import trials
from tff_fair.experiments.sweeps.study import Dimension, SearchSettings, Space
from tff_fair.experiments.sweeps.trials import Trial
from tff_fair.experiments.training.callbacks import RoundCallback
from tff_fair.experiments.training.round_state import RoundState

_SUGGESTION = 3  # The key of this random stream; other streams have other keys.
_ENDED = {trials.PRUNED: TrialState.PRUNED, trials.FAILED: TrialState.FAIL}


def suggest(
  name: str,
  space: Space,
  settings: SearchSettings,
  before: Sequence[Trial],
) -> dict[str, str] | None:
  """Returns the settings of the next trial; None after the last one."""
  if settings.sampler == "grid":
    return _suggest_from_grid(space, settings.sampler_seed, len(before))
  with _silence_optuna():
    if settings.sampler == "qmc":
      study = optuna.create_study(sampler=_sampler(settings, len(before)))
      for _ in before:  # The sequence advances with each trial.
        study.tell(study.ask(_distributions(space)), 0.0)
    else:
      study = _study(name, space, settings, before, None)
      study.sampler = _sampler(settings, len(before))
    trial = study.ask(_distributions(space))
  return {name: d.text(trial.params[name]) for name, d in space.items()}


@dataclasses.dataclass
class PruningCallback(RoundCallback):
  """Ends a trial's first run if Optuna finds its evaluations unpromising."""

  name: str
  space: Space
  settings: SearchSettings
  earlier_trials: Sequence[Trial]
  trial_settings: Mapping[str, str]
  total_rounds: int
  _trial: optuna.Trial | None = None

  def on_start(self, run: Run) -> Literal["prune"] | None:
    """Reports the evaluations of a resumed run to Optuna; may prune the run."""
    rows = run.client_evaluations
    for round_num, clients in rows.groupby(ROUND):
      if self.should_prune(int(round_num), clients, run.score):
        return "prune"
    return None

  def on_evaluation(self, state: RoundState) -> Literal["prune"] | None:
    """Reports an evaluation to Optuna; returns "prune" if the run is to end."""
    assert state.evaluation is not None
    _, columns, score = state.evaluation
    clients = pd.DataFrame(dict(columns))
    return (
      "prune" if self.should_prune(state.round_num, clients, score) else None
    )

  def should_prune(
    self, round_num: int, clients: pd.DataFrame, score: Score
  ) -> bool:
    """Reports an evaluation to Optuna; returns whether to end the run."""
    # Before the first round, all trials have the same results.
    if not 0 < round_num < self.total_rounds:
      return False
    settings = self.settings
    value = trials.objective(
      clients, settings.objective, settings.validation_fraction, score
    )
    with _silence_optuna():
      if self._trial is None:
        study = _study(
          *(self.name, self.space, self.settings, self.earlier_trials),
          *(self.total_rounds, score),
        )
        self._trial = _ask(study, self.space, self.trial_settings)
      self._trial.report(value, round_num)
      return self._trial.should_prune()


def importances(
  space: Space,
  settings: SearchSettings,
  known_trials: Sequence[Trial],
  place: int,
) -> dict[str, float]:
  """Returns each setting's share of an objective's variance, by fANOVA.

  `place` is the index of the objective. The result is empty if the objective
  has the same value in all trials.
  """
  counted = [
    trial
    for trial in known_trials
    if trial.outcome.state == trials.COMPLETE
    and np.isfinite(trial.outcome.values).all()
  ]
  if len({trial.outcome.values[place] for trial in counted}) < 2:
    return {}
  with _silence_optuna():
    study = _study("importances", space, settings, counted, None)
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    return dict(
      optuna.importance.get_param_importances(
        study, evaluator=evaluator, target=lambda trial: trial.values[place]
      )
    )


def _suggest_from_grid(
  space: Space, seed: int, number: int
) -> dict[str, str] | None:
  values = {name: dimension.values() for name, dimension in space.items()}
  for name, texts in values.items():
    if texts is None:
      raise FieldError(
        "sampler",
        f"{name}={space[name]} has infinitely many values; give values, as a "
        "grid does, or a range with a step.",
        value="grid",
      )
  combinations = list(itertools.product(*(v for v in values.values() if v)))
  if number >= len(combinations):
    return None
  random = seeds.generator(seed, _SUGGESTION, 0)
  order = random.permutation(len(combinations))
  return dict(zip(space, combinations[order[number]], strict=True))


def _sampler(settings: SearchSettings, number: int) -> samplers.BaseSampler:
  random = seeds.generator(settings.sampler_seed, _SUGGESTION, number)
  seed = int(random.integers(2**31))
  if settings.sampler == "tpe":
    return samplers.TPESampler(seed=seed)
  independent = samplers.RandomSampler(seed)
  if settings.sampler == "random":
    return independent
  return samplers.QMCSampler(
    # Not the trial's seed: all trials take points of the same sequence.
    scramble=True,
    seed=settings.sampler_seed,
    independent_sampler=independent,
    warn_independent_sampling=False,
  )


def _pruner(
  settings: SearchSettings, total_rounds: int | None
) -> pruners.BasePruner:
  if settings.pruner == "median":
    return pruners.MedianPruner()
  if settings.pruner == "hyperband" and total_rounds is not None:
    return pruners.HyperbandPruner(max_resource=total_rounds)
  return pruners.NopPruner()


def _distributions(space: Space) -> dict[str, distributions.BaseDistribution]:
  return {name: _distribution(d) for name, d in space.items()}


def _distribution(dimension: Dimension) -> distributions.BaseDistribution:
  drawn = dimension.range
  if drawn is None:
    return distributions.CategoricalDistribution(dimension.choices)
  low, high, step = drawn.low, drawn.high, drawn.step
  if step is not None:  # Optuna warns if no step ends at `high`.
    high = float(dimension.text(drawn.last))
  if dimension.is_integer:
    return distributions.IntDistribution(
      int(low), int(high), drawn.is_logarithmic, int(step or 1)
    )
  return distributions.FloatDistribution(low, high, drawn.is_logarithmic, step)


def _ask(
  study: optuna.Study, space: Space, texts: Mapping[str, str]
) -> optuna.Trial:
  """Begins a trial of a study with the settings `texts`."""
  study.enqueue_trial({name: d.value(texts[name]) for name, d in space.items()})
  return study.ask(_distributions(space))


def _study(
  name: str,
  space: Space,
  settings: SearchSettings,
  before: Sequence[Trial],
  total_rounds: int | None,
  score: Score | None = None,
) -> optuna.Study:
  """Returns a study with the trials `before`.

  `score`, which the objectives measure, defaults to the score of the trials.
  """
  study = optuna.create_study(
    study_name=name,
    directions=settings.directions(score or trials.score_of(before)),
    sampler=samplers.RandomSampler(0),  # Not used: settings are enqueued.
    pruner=_pruner(settings, total_rounds),
  )
  for known in before:
    trial = _ask(study, space, known.settings)
    for round_num, value in known.outcome.curve.items():
      trial.report(value, round_num)
      trial.should_prune()  # A pruner's state depends on these calls.
    if known.outcome.state == trials.COMPLETE:
      study.tell(trial, known.outcome.values)
    elif known.outcome.state in _ENDED:
      study.tell(trial, state=_ENDED[known.outcome.state])
  return study


@contextlib.contextmanager
def _silence_optuna() -> Iterator[None]:
  """Silences Optuna's line for each trial and its experimental warnings."""
  before = optuna.logging.get_verbosity()
  optuna.logging.set_verbosity(optuna.logging.ERROR)
  try:
    with warnings.catch_warnings():
      warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
      yield
  finally:
    optuna.logging.set_verbosity(before)
