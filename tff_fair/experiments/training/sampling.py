"""Who takes part in a round, who reports back, who is evaluated, who attacks.

Everything is drawn from the seed and the round alone: a run that is resumed
meets the same clients.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

KINDS = ("uniform", "proportional", "all")

# Keep what is drawn from one seed apart.
_COHORTS, _SIZES, _DROPOUTS, _DROPOUT_RATES = 1, 2, 3, 4
_EVALUATION, _ATTACKERS = 5, 6


class DrawnCohort(NamedTuple):
  """The clients of a round, by id, in ascending order.

  Attributes:
    drawn: They get the model.
    reporting: Those of them whose updates arrive, one or more.
  """

  drawn: list[int]
  reporting: list[int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampling:
  """How clients are drawn.

  Attributes:
    seed: Seed of all draws.
    kind: "uniform"; "proportional" to training examples, one client after the
      other without replacement; or "all" clients in each round.
    clients_per_round: The least and the greatest size of a cohort; sizes
      between them are equally likely. Not used if `kind` is "all".
    dropout: Probability that a drawn client does not report back, below 1.
    dropout_kind: "independent", for each client and round; or "by_client": each
      client has a probability of its own for the whole run, drawn uniformly
      from the widest interval around `dropout` that lies in [0, 1].
  """

  seed: int
  kind: str = "uniform"
  clients_per_round: tuple[int, int]
  dropout: float = 0.0
  dropout_kind: str = "independent"


class Sampler:
  """Draws the cohorts of a run."""

  def __init__(self, sampling: Sampling, num_examples: np.ndarray) -> None:
    """Takes what it draws from.

    Args:
      sampling: How to draw.
      num_examples: int[K], training examples of each client.
    """
    self._sampling = sampling
    self._num_clients = len(num_examples)
    self._shares = num_examples / np.sum(num_examples)
    self._dropout_rates = _dropout_rates(sampling, self._num_clients)

  def __call__(self, round_num: int) -> DrawnCohort:
    """Draws the cohort of a round; rounds are counted from 1."""
    drawn = self._draw(round_num)
    if not self._sampling.dropout:
      return DrawnCohort(drawn, drawn)
    random = generator(self._sampling.seed, _DROPOUTS, round_num)
    drops_out = random.random(len(drawn)) < self._dropout_rates[drawn]
    if drops_out.all():
      # A round needs somebody: one of them reports after all.
      drops_out[random.integers(len(drawn))] = False
    return DrawnCohort(
      drawn, [k for k, gone in zip(drawn, drops_out, strict=True) if not gone]
    )

  def _draw(self, round_num: int) -> list[int]:
    if self._sampling.kind == "all":
      return list(range(self._num_clients))
    seed = self._sampling.seed
    least, most = self._sampling.clients_per_round
    size = least
    if least != most:
      size = generator(seed, _SIZES, round_num).integers(least, most + 1)
    drawn = generator(seed, _COHORTS, round_num).choice(
      self._num_clients,
      size,
      replace=False,
      p=self._shares if self._sampling.kind == "proportional" else None,
    )
    return sorted(drawn.tolist())


def generator(seed: int, *key: int) -> np.random.Generator:
  """Returns the random generator of a seed and a key."""
  sequence = np.random.SeedSequence(seed, spawn_key=key)
  return np.random.Generator(np.random.PCG64(sequence))


def evaluated_clients(
  seed: int, num_clients: int, number: int | None
) -> np.ndarray:
  """Draws the clients that are evaluated, the same all run long.

  Args:
    seed: Seed of the draw.
    num_clients: Size of the population.
    number: How many to draw; `None` takes all.

  Returns:
    int64[number], in ascending order.
  """
  if number is None:
    return np.arange(num_clients)
  return _subset(generator(seed, _EVALUATION), num_clients, number)


def attackers(seed: int, num_clients: int, share: float) -> np.ndarray:
  """Draws the clients that attack: a share, but not nobody and not everybody.

  Args:
    seed: Seed of the draw.
    num_clients: Size of the population, 2 or more.
    share: Between 0 and 1.

  Returns:
    int64[n], in ascending order.
  """
  number = int(np.clip(round(share * num_clients), 1, num_clients - 1))
  return _subset(generator(seed, _ATTACKERS), num_clients, number)


def _subset(
  random: np.random.Generator, num_clients: int, number: int
) -> np.ndarray:
  return np.sort(random.choice(num_clients, number, replace=False))


def _dropout_rates(sampling: Sampling, num_clients: int) -> np.ndarray:
  """Returns each client's probability not to report back, float64[K]."""
  p = sampling.dropout
  if sampling.dropout_kind == "independent":
    return np.full(num_clients, p)
  width = min(p, 1 - p)
  random = generator(sampling.seed, _DROPOUT_RATES)
  return random.uniform(p - width, p + width, num_clients)
