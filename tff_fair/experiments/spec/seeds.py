"""Defines the seeds of a run, and its random generators."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

# The names of seed settings. Runs that differ only in seeds are repetitions.
NAMES = ("seed", "data_seed", "model_seed")


class Seeds(NamedTuple):
  """The seeds of a run; by default, `data` and `model` equal `draws`."""

  draws: int  # For cohorts, the local order of examples, and all other draws.
  data: int  # For the task's data.
  model: int  # For the initial weights.

  def __str__(self) -> str:
    """Returns the seeds as text: "0", or "0 (model 3)" if they differ."""
    others = [
      f"{name} {seed}"
      for name, seed in (("data", self.data), ("model", self.model))
      if seed != self.draws
    ]
    return f"{self.draws} ({', '.join(others)})" if others else f"{self.draws}"


def from_settings(settings: Mapping[str, Any]) -> Seeds:
  """Returns the seeds in `settings`; those that are None equal `seed`."""
  seed = int(settings["seed"])
  given = (settings[name] for name in NAMES)
  return Seeds(*(seed if other is None else int(other) for other in given))


def generator(seed: int, *key: int) -> np.random.Generator:
  """Returns a random generator for a seed and a key.

  The first number of a key is the kind of draws; different kinds have
  independent generators.
  """
  sequence = np.random.SeedSequence(seed, spawn_key=key)
  return np.random.Generator(np.random.PCG64(sequence))
