"""How to search: the number of trials, the sampler, the objective."""

import dataclasses
import importlib.util
from collections.abc import Mapping
from typing import Any, Literal, Self

from tff_fair.declared import FieldError
from tff_fair.experiments.comparing import measures
from tff_fair.experiments.scores import ACCURACY, Score

# Samplers by name; Optuna's others need packages beside it.
SAMPLERS = {
  "tpe": "tree-structured Parzen estimator: learns from the trials before",
  "random": "draws each setting by itself",
  "qmc": "spreads trials evenly (quasi-Monte Carlo, scrambled Sobol)",
  "grid": "takes every combination of a --grid once, in random order",
}
PRUNERS = {
  "none": "every run goes to its last round",
  "median": "ends a run that is worse than the median of the trials before it "
  "after as many rounds, from the sixth trial on",
  "hyperband": "ends runs in brackets (successive halving)",
}

Direction = Literal["minimize", "maximize"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchSettings:
  """How to search.

  Attributes:
    trials: How many settings each method tries.
    sampler: Who suggests them, one of `SAMPLERS`.
    sampler_seed: Seed of the sampler.
    objective: The measure to improve, one of `measures.NAMES`; several, as
      "mean,worst_10", for a Pareto set.
    pruner: Who ends runs early, one of `PRUNERS`.
    validation_fraction: Share of the clients whose test data decide; 0 is all.
  """

  trials: int
  sampler: str = "tpe"
  sampler_seed: int = 0
  objective: str = "mean"
  pruner: str = "none"
  validation_fraction: float = 0.2

  def __post_init__(self) -> None:
    for name in ("trials", "sampler_seed"):
      value, least = getattr(self, name), int(name == "trials")
      if not isinstance(value, int) or value < least:
        raise FieldError(
          name, f"expected an integer from {least} on.", value=value
        )
    for name in ("sampler", "objective", "pruner"):
      value = getattr(self, name)
      if not isinstance(value, str):
        raise FieldError(name, "expected a text.", value=value)
    for name, valid in (("sampler", SAMPLERS), ("pruner", PRUNERS)):
      value = getattr(self, name)
      if value == "cmaes":
        raise FieldError(
          name,
          "needs another package beside Optuna; choose one of "
          f"{', '.join(valid)}.",
          value=value,
        )
      if value not in valid:
        raise FieldError(
          name, f"unknown; valid: {', '.join(valid)}.", value=value
        )
    self._check_objective()
    fraction = self.validation_fraction
    if not isinstance(fraction, int | float) or not 0 <= fraction < 1:
      raise FieldError(
        "validation_fraction", "expected a number in [0, 1).", value=fraction
      )

  @property
  def objectives(self) -> tuple[str, ...]:
    """The names of the measures to improve."""
    return tuple(self.objective.split(","))

  @property
  def directions(self) -> list[Direction]:
    """Which way each objective is better, where runs have accuracies."""
    return self.directions_of(ACCURACY)

  def directions_of(self, score: Score) -> list[Direction]:
    """Returns which way each objective is better, as Optuna says it.

    Args:
      score: The score of the runs.

    Raises:
      FieldError: If the runs do not have an objective.
    """
    return [
      "maximize"
      if measures.find(name, score, "the search", "objective").higher_is_better
      else "minimize"
      for name in self.objectives
    ]

  @classmethod
  def from_dict(cls, place: str, values: Mapping[str, Any]) -> Self:
    """Returns the settings of a table.

    Raises:
      FieldError: If a value is not valid, or a name is unknown.
    """
    valid = [field.name for field in dataclasses.fields(cls)]
    for name in values:
      if name not in valid:
        raise FieldError(
          "search", f"{place}: unknown {name!r}; valid: {', '.join(valid)}."
        )
    objective = values.get("objective")
    if isinstance(objective, list):
      values = {**values, "objective": ",".join(map(str, objective))}
    return cls(**values)

  def _check_objective(self) -> None:
    names = self.objectives
    for name in names:
      if name not in measures.NAMES:
        raise FieldError(
          "objective",
          f"unknown {name!r}; valid: {', '.join(measures.NAMES)}.",
          value=self.objective,
        )
    if len(set(names)) < len(names):
      raise FieldError(
        "objective", "names a measure twice.", value=self.objective
      )
    if len(names) > 1 and self.pruner != "none":
      raise FieldError(
        "pruner",
        "needs one objective: by several, no run is plainly the worse one; "
        "leave it out.",
        value=self.pruner,
      )


def check_installed() -> None:
  """Checks that Optuna is there.

  Raises:
    FieldError: If it is not.
  """
  if importlib.util.find_spec("optuna") is None:
    raise FieldError(
      "trials",
      "a search needs the package optuna; install it with pip install "
      '"tff-fair[search]", or pip install optuna.',
    )
