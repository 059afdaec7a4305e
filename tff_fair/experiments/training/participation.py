"""From which round on each client takes part: from the first, later, or never.

Late joiners and unseen clients are in the task like all others, and evaluated
like them. No round draws them before their time.
"""

from collections.abc import Iterable

import numpy as np

import tasks
from tff_fair import spelling
from tff_fair.declared import FieldError
from tff_fair.experiments.runs import tables
from tff_fair.experiments.spec import RunSpec
from tff_fair.experiments.training import sampling

NEVER = np.iinfo(np.int64).max


def first_rounds(spec: RunSpec, task: tasks.Task) -> np.ndarray:
  """Returns the first round that may draw each client.

  Args:
    spec: The run.
    task: Its task.

  Returns:
    int64[K]; `NEVER` for a client that takes no part.

  Raises:
    FieldError: If a setting names no client of the task, or no client is left
      for the first round.
  """
  rounds = np.ones(task.num_clients, np.int64)
  field = "unseen_clients"
  if spec.unseen_clients is not None:
    random = sampling.generator(spec.seed, sampling.UNSEEN)
    everyone = np.arange(task.num_clients)
    chosen = _share_of(spec.unseen_clients, everyone, random)
    if chosen is None:
      chosen = _named(field, spec.unseen_clients.split(","), task)
    rounds[chosen] = NEVER
    _check_first(field, spec.unseen_clients, rounds)
  field = "join_round"
  for place, part in enumerate((spec.join_round or "").split(",")):
    who, _, round_num = part.rpartition(":")
    if not who:
      continue
    random = sampling.generator(spec.seed, sampling.LATE, place)
    chosen = _share_of(who, np.flatnonzero(rounds == 1), random)
    if chosen is None:
      chosen = _named(field, [who], task)
      if (rounds[chosen] == NEVER).any():
        raise FieldError(
          field, f"{who} is one of unseen_clients; leave one of the two out."
        )
    rounds[chosen] = int(round_num)
  _check_first(field, spec.join_round, rounds)
  return rounds


def num_seen(first: np.ndarray) -> int:
  """Returns how many clients may ever take part."""
  return int(np.count_nonzero(first < NEVER))


def marks(first: np.ndarray) -> dict[str, np.ndarray]:
  """Returns columns that mark clients in tables, if there are any to mark.

  Args:
    first: `first_rounds` of the clients, int64[n].

  Returns:
    `unseen`, bool[n], where a client takes no part; `join_round`, int64[n],
    where one begins later: 1 for the others.
  """
  found: dict[str, np.ndarray] = {}
  is_unseen = first == NEVER
  if is_unseen.any():
    found[tables.UNSEEN] = is_unseen
  if ((first > 1) & ~is_unseen).any():
    found[tables.JOIN_ROUND] = np.where(is_unseen, 1, first)
  return found


def _share_of(
  text: str, among: np.ndarray, random: np.random.Generator
) -> np.ndarray | None:
  """Draws a share of the clients; None where the text is no share."""
  try:
    share = float(text)
  except ValueError:
    return None
  if not 0 < share < 1 or among.size < 2:
    return None
  number = int(np.clip(round(share * among.size), 1, among.size - 1))
  return random.choice(among, number, replace=False)


def _named(field: str, names: Iterable[str], task: tasks.Task) -> np.ndarray:
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


_MOST_SHOWN = 10  # Names of clients in an error.


def _check_first(field: str, text: str | None, rounds: np.ndarray) -> None:
  if not (rounds == 1).any():
    raise FieldError(
      field, "no client is left for the first round.", value=text
    )
