"""Personal models of a run by the names of their clients."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable, Mapping

from tff_fair import spelling
from tff_fair.declared import FieldError

if typing.TYPE_CHECKING:
  from tff_fair.experiments.runs.run import Run
  from tff_fair.experiments.runs.trained_model import Weights

# Names that are files on every system, in 80 letters or less.
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")


def check(run: Run, weights: Weights, argument: str, value: object) -> None:
  """Checks that a run has personal models.

  Raises:
    FieldError: If it has not.
  """
  if weights.personal is None:
    raise FieldError(
      argument,
      f"the run, with {run.algorithm}, trained no personal models, as ditto "
      "does, and any method with personal_lam; leave it out.",
      value=value,
    )


def find(run: Run, name: str) -> int:
  """Returns the id of a client.

  Raises:
    FieldError: If there is no such client.
    tasks.DataError: If only the task's data know the names, and cannot be used.
  """
  known = _in_folder(run)
  if name not in known:
    known = _of_task(run)
  if name not in known:
    near = " or ".join(spelling.guesses(name, known))
    hint = f"did you mean {near}?" if near else "see clients.csv."
    raise FieldError("client", f"there is no such client; {hint}", value=name)
  return known[name]


def names(run: Run, client_ids: Iterable[int]) -> dict[int, str]:
  """Returns the names of some clients by their ids.

  Raises:
    tasks.DataError: As `find`.
  """
  known = {client_id: name for name, client_id in _in_folder(run).items()}
  wanted = list(client_ids)
  if not known.keys() >= set(wanted):
    known = {client_id: name for name, client_id in _of_task(run).items()}
  return {client_id: known[client_id] for client_id in wanted}


def file_names(clients: Mapping[int, str], suffix: str) -> dict[int, str]:
  """Returns a file name for each client: its own name, if that can be one.

  Others, and those that some system takes for another's, are named by their
  ids.

  Args:
    clients: Names by id.
    suffix: The end of the files' names.
  """
  seen: dict[str, int] = {}
  for name in clients.values():
    seen[name.casefold()] = seen.get(name.casefold(), 0) + 1
  return {
    client_id: (
      f"{name}{suffix}"
      if _FILE_NAME.fullmatch(name) and seen[name.casefold()] == 1
      else f"client {client_id}{suffix}"
    )
    for client_id, name in clients.items()
  }


def _in_folder(run: Run) -> dict[str, int]:
  """Returns the ids by name of the clients that a finished run evaluated."""
  if run.clients is None or "client" not in run.clients:
    return {}
  ids = run.clients["client_id"].tolist()
  return dict(zip(run.clients["client"].astype(str), ids, strict=True))


def _of_task(run: Run) -> dict[str, int]:
  # Imported late: it imports TensorFlow Federated.
  from tff_fair.experiments.training import task_loading  # noqa: PLC0415

  found = task_loading.load(run.spec).client_names
  return {name: client_id for client_id, name in enumerate(found)}
