"""What clients are called, the same everywhere on the page."""

from collections.abc import Sequence

from tff_fair.experiments.runs.run import Run

_LETTER_WIDTH, _GAP = 7, 8
_MAX_WIDTH = 860  # Of all names side by side, as below a chart's columns.
_MAX_LETTERS = 24


class ClientNames:
  """The clients of a task go by their names, or all by their numbers.

  They go by their names where all runs agree on them and they differ. A number
  is the client's id in the tables of runs.
  """

  def __init__(self, runs: Sequence[Run]) -> None:
    self._names = _names(runs)
    self._short = _cut(self._names)

  @property
  def has_names(self) -> bool:
    """Whether clients go by their names."""
    return bool(self._names)

  @property
  def fit_side_by_side(self) -> bool:
    """Whether all names have room below a chart."""
    widths = [_LETTER_WIDTH * len(n) + _GAP for n in self._short.values()]
    return self.has_names and sum(widths) <= _MAX_WIDTH

  @property
  def width(self) -> int:
    """The room for the longest name in a chart; of numbers, that of four."""
    return _LETTER_WIDTH * max([4, *map(len, self._short.values())])

  def short(self, client_id: int) -> str:
    """Returns a client's name, cut if it is long, or its number."""
    return self._short.get(client_id, f"{client_id:,}")

  def full(self, client_id: int) -> str:
    """Returns its name, or "Client" and its number."""
    return self._names.get(client_id, f"Client {client_id:,}")


def _names(runs: Sequence[Run]) -> dict[int, str]:
  names: dict[int, str] = {}
  for run in runs:
    if run.clients is None or "client" not in run.clients:
      continue
    for client_id, name in run.client_names.items():
      if names.setdefault(int(client_id), name) != name:
        return {}
  return names if len(set(names.values()) - {""}) == len(names) else {}


def _cut(names: dict[int, str]) -> dict[int, str]:
  """Returns the first letters of long names, if these tell them apart."""
  short = {
    client_id: name
    if len(name) <= _MAX_LETTERS
    else f"{name[: _MAX_LETTERS - 1]}…"
    for client_id, name in names.items()
  }
  return short if len(set(short.values())) == len(names) else names
