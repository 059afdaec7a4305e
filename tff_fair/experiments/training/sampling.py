"""Draws the clients that train, report back, are evaluated, or attack.

All draws depend only on the seed, the round and, for power of choice and DRFA,
on values that a resumed run restores. So a resumed run draws the same clients.

Power of choice: Cho, Wang, Joshi, "Towards Understanding Biased Client
Selection in Federated Learning" (AISTATS 2022). Of d candidates, drawn without
replacement with probabilities proportional to their numbers of examples, the m
clients with the largest last known losses take part. Clients without a loss yet
come first; if losses are equal, clients with smaller ids come first.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy import stats

import tasks
from tff_fair import spelling
from tff_fair.declared import FieldError
from tff_fair.experiments.runs import tables
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.spec.seeds import generator
from tff_fair.experiments.spec.settings import bounds
from tff_fair.experiments.training.callbacks import RoundCallback
from tff_fair.experiments.training.round_state import RoundState

NEVER = np.iinfo(np.int64).max  # "First round" of a client that never trains.

# Keys of random draws: draws with different keys are independent.
_COHORTS, _SIZES, _DROPOUTS, _DROPOUT_RATES = 1, 2, 3, 4
_EVALUATION, _ATTACKERS, _BLOCKS = 5, 6, 7
_UNSEEN, _LATE, _SECOND = 8, 9, 10
_MOST_SHOWN = 10  # The most client names that an error lists.


class DrawnCohort(NamedTuple):
  """A round's client ids, ascending; draws by DRFA's lambda may repeat ids."""

  drawn: list[int]  # The clients that receive the model.
  reporting: list[int]  # The clients whose updates arrive; one or more.

  @property
  def without_repeats(self) -> "DrawnCohort":
    """The cohort in which each id occurs once."""
    return DrawnCohort(*(sorted({*ids}) for ids in self))


class LastLosses(RoundCallback):
  """Keeps each client's last loss, infinite until the client takes part."""

  def __init__(self, num_clients: int) -> None:
    self.values = np.full(num_clients, np.inf, np.float32)

  def on_start(self, run: Run) -> None:
    """Records the losses of the rounds that a resumed run already has."""
    self.values[:] = np.inf
    cohorts = run.cohorts
    if cohorts is not None and len(cohorts):
      rows = cohorts.sort_values(tables.ROUND, kind="stable")
      self._take(rows[tables.CLIENT].to_numpy(), rows["loss"].to_numpy())

  def on_round(self, state: RoundState) -> None:
    """Records the losses of the round's cohort."""
    self._take(state.clients["client_id"], state.clients["loss"])

  def _take(self, client_ids: np.ndarray, losses: np.ndarray) -> None:
    values = np.array(losses, np.float32)  # None becomes NaN.
    for client_id, value in zip(client_ids.tolist(), values, strict=True):
      if not np.isnan(value):
        self.values[client_id] = value


class Sampler:
  """Draws the cohorts of a run."""

  def __init__(
    self,
    spec: RunSpec,
    clients_per_round: bounds.Range,
    num_examples: np.ndarray,
    labels: np.ndarray | None = None,
    first_rounds: np.ndarray | None = None,
  ) -> None:
    # A callback that runs with power of choice need.
    self.last_losses = LastLosses(len(num_examples))
    # DRFA's lambda, float64[clients]; `MixtureAscent` sets it for each round.
    self.mixture = np.full(len(num_examples), 1 / len(num_examples))
    self._spec = spec
    self._sizes = bounds.range_ends(clients_per_round)
    self._num_clients = len(num_examples)
    self._num_examples = num_examples
    self._first_rounds = (
      np.ones(self._num_clients) if first_rounds is None else first_rounds
    )
    self._tendencies = self._drawn_tendencies(num_examples, labels)

  def __call__(self, round_num: int) -> DrawnCohort:
    """Draws the cohort of a round; rounds are counted from 1."""
    drawn = self._draw(round_num)
    if not self._spec.dropout:
      return DrawnCohort(drawn, drawn)
    random = generator(self._spec.seed, _DROPOUTS, round_num)
    drops_out = (
      random.random(len(drawn)) < self._dropout_rates(round_num)[drawn]
    )
    if drops_out.all():
      # A round needs an update, so one of the drawn clients reports anyway.
      drops_out[random.integers(len(drawn))] = False
    return DrawnCohort(
      drawn, [k for k, gone in zip(drawn, drops_out, strict=True) if not gone]
    )

  def _drawn_tendencies(
    self, num_examples: np.ndarray, labels: np.ndarray | None
  ) -> np.ndarray:
    """Returns each client's tendency to drop out, in [-1, 1]."""
    match self._spec.dropout_kind:
      case "by_size":
        return -_spread_evenly(num_examples)
      case "by_label" if labels is not None:
        return _spread_evenly(labels)
      case "independent" | "blocks":
        return np.zeros(self._num_clients)
    random = generator(self._spec.seed, _DROPOUT_RATES)
    return random.uniform(-1, 1, self._num_clients)

  def _dropout_rates(self, round_num: int) -> np.ndarray:
    """Returns each client's probability of dropping out, float64[clients]."""
    spec, p = self._spec, self._spec.dropout
    tendencies = self._tendencies
    if spec.dropout_kind == "blocks":
      block = (round_num - 1) // spec.dropout_rounds
      random = generator(spec.seed, _BLOCKS, block)
      return (random.random(self._num_clients) < p).astype(np.float64)
    if spec.dropout_kind == "periodic":
      phase = round_num / spec.dropout_rounds + tendencies / 2
      tendencies = np.sin(2 * np.pi * phase)
    return p + min(p, 1 - p) * tendencies

  def _draw(self, round_num: int) -> list[int]:
    there = np.flatnonzero(self._first_rounds <= round_num)
    if self._spec.sampling == "all":
      return there.tolist()
    seed = self._spec.seed
    least, most = self._sizes
    size = least
    if least != most:
      size = generator(seed, _SIZES, round_num).integers(least, most + 1)
    if self._spec.draws_by_lambda:
      drawn = generator(seed, _COHORTS, round_num).choice(
        len(self.mixture), size, p=self.mixture / np.sum(self.mixture)
      )
      return sorted(drawn.tolist())
    examples = self._num_examples[there]
    is_by_loss = self._spec.sampling == "power_of_choice"
    number = size
    if is_by_loss:
      number = max(size, self._spec.sampling_candidates or 2 * size)
    drawn = generator(seed, _COHORTS, round_num).choice(
      there,
      min(number, there.size),
      replace=False,
      p=None
      if self._spec.sampling == "uniform"
      else examples / np.sum(examples),
    )
    if is_by_loss:
      # Keep clients with the largest last losses; if equal, with lower ids.
      by_id = np.sort(drawn)
      losses = self.last_losses.values[by_id]
      drawn = by_id[np.argsort(-losses, kind="stable")[:size]]
    return sorted(drawn.tolist())

  def draw_second_cohort(self, round_num: int) -> list[int]:
    """Draws DRFA's second cohort of a round, uniformly without replacement."""
    there = np.flatnonzero(self._first_rounds <= round_num)
    random = generator(self._spec.seed, _SECOND, round_num)
    size = min(self._sizes[1], there.size)
    return sorted(random.choice(there, size, replace=False).tolist())


def evaluation_clients(spec: RunSpec, first_rounds: np.ndarray) -> np.ndarray:
  """Returns the ids of the clients that the run evaluates, int64[n], ascending.

  By default, the run evaluates all clients. If `evaluation_clients` is set, it
  evaluates a random sample of the clients that may take part, and all unseen
  clients.
  """
  seen = np.flatnonzero(participates(first_rounds))
  number = spec.evaluation_clients
  if number is None:
    return np.arange(len(first_rounds))
  if number > seen.size:
    raise FieldError(
      "evaluation_clients",
      f"the task has {seen.size} clients; expected 1 to {seen.size}.",
      value=number,
    )
  drawn = generator(spec.seed, _EVALUATION).choice(
    seen.size, number, replace=False
  )
  return np.union1d(seen[drawn], np.flatnonzero(first_rounds == NEVER))


def draw_attackers(seed: int, num_clients: int, share: float) -> np.ndarray:
  """Draws the attackers: `share` of the clients, at least one, but not all."""
  random = generator(seed, _ATTACKERS)
  return np.sort(_draw_share(share, np.arange(num_clients), random))


def _draw_share(
  share: float, among: np.ndarray, random: np.random.Generator
) -> np.ndarray:
  """Draws `share` of the clients `among`: at least one, but not all."""
  number = int(np.clip(round(share * among.size), 1, among.size - 1))
  return random.choice(among, number, replace=False)


def _spread_evenly(values: np.ndarray) -> np.ndarray:
  """Scales values' ranks to [-1, 1], with mean 0; equal values rank equally."""
  half = (len(values) - 1) / 2
  return (stats.rankdata(values) - 1 - half) / max(half, 1)


def first_rounds(spec: RunSpec, task: tasks.Task) -> np.ndarray:
  """Returns the first round that may draw each client, int64[clients].

  It is above 1 for late joiners, and `NEVER` for unseen clients. The run
  evaluates late joiners and unseen clients like all others.
  """
  rounds = np.ones(task.num_clients, np.int64)
  field = "unseen_clients"
  if spec.unseen_clients is not None:
    random = generator(spec.seed, _UNSEEN)
    everyone = np.arange(task.num_clients)
    chosen = _try_draw_share(spec.unseen_clients, everyone, random)
    if chosen is None:
      chosen = _find_ids(field, spec.unseen_clients.split(","), task)
    rounds[chosen] = NEVER
    _check_first(field, spec.unseen_clients, rounds)
  field = "join_round"
  for place, part in enumerate((spec.join_round or "").split(",")):
    who, _, round_num = part.rpartition(":")
    if not who:
      continue
    random = generator(spec.seed, _LATE, place)
    chosen = _try_draw_share(who, np.flatnonzero(rounds == 1), random)
    if chosen is None:
      chosen = _find_ids(field, [who], task)
      if (rounds[chosen] == NEVER).any():
        raise FieldError(
          field, f"{who} is one of unseen_clients; leave one of the two out."
        )
    rounds[chosen] = int(round_num)
  _check_first(field, spec.join_round, rounds)
  return rounds


def participates(first: np.ndarray) -> np.ndarray:
  """Returns whether each client may ever take part, as booleans."""
  return first < NEVER


def num_participants(first: np.ndarray) -> int:
  """Returns how many clients may ever take part."""
  return int(np.count_nonzero(participates(first)))


def rounds_before_joining(first: np.ndarray) -> list[int]:
  """Returns the rounds after which clients join, in ascending order."""
  joining = first[(first > 1) & participates(first)]
  return (np.unique(joining) - 1).tolist()


def participation_columns(first: np.ndarray) -> dict[str, np.ndarray]:
  """Returns the table columns that mark unseen clients and late joiners.

  A column is left out if it would mark no client.
  """
  found: dict[str, np.ndarray] = {}
  is_unseen = first == NEVER
  if is_unseen.any():
    found[tables.UNSEEN] = is_unseen
  if ((first > 1) & ~is_unseen).any():
    found[tables.JOIN_ROUND] = np.where(is_unseen, 1, first)
  return found


def _try_draw_share(
  text: str, among: np.ndarray, random: np.random.Generator
) -> np.ndarray | None:
  """Draws the share `text` of the clients `among`; None if it is no share."""
  try:
    share = float(text)
  except ValueError:
    return None
  if not 0 < share < 1 or among.size < 2:
    return None
  return _draw_share(share, among, random)


def _find_ids(field: str, names: Iterable[str], task: tasks.Task) -> np.ndarray:
  ids = {name: client_id for client_id, name in enumerate(task.client_names)}
  names = list(names)
  for name in names:
    if name not in ids:
      known = ids if len(ids) <= _MOST_SHOWN else spelling.guesses(name, ids)
      valid = f"; names: {', '.join(known)}" if known else ""
      raise FieldError(
        field,
        f"{task.name} has no such client. Give a share in (0, 1) or names"
        f"{valid}.",
        value=name,
      )
  return np.array([ids[name] for name in names])


def _check_first(field: str, text: str | None, rounds: np.ndarray) -> None:
  if not (rounds == 1).any():
    raise FieldError(
      field, "no client is left for the first round.", value=text
    )
