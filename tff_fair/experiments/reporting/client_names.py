"""What clients are called, the same everywhere on the page."""

from collections.abc import Sequence

from tff_fair.experiments.runs.run import Run

# All names side by side, as a chart below its columns; a letter takes 7 pixels.
_LETTER_WIDTH, _GAP, _MAX_WIDTH = 7, 8, 860


class ClientNames:
  """The clients of a task go by their names, or all by their numbers.

  They go by their names where all runs agree on them, they differ, and all have
  room below a chart. A number is the client's id in the tables of runs.
  """

  def __init__(self, runs: Sequence[Run]) -> None:
    self._names = _names(runs)

  @property
  def has_names(self) -> bool:
    """Whether clients go by their names."""
    return bool(self._names)

  @property
  def width(self) -> int:
    """The room for the longest name in a chart; of numbers, that of four."""
    return _LETTER_WIDTH * max([4, *map(len, self._names.values())])

  def short(self, client_id: int) -> str:
    """Returns a client's name or number."""
    return self._names.get(client_id, f"{client_id:,}")

  def full(self, client_id: int) -> str:
    """Returns its name, or "client" and its number."""
    name = self.short(client_id)
    return name if self.has_names else f"Client {name}"


def _names(runs: Sequence[Run]) -> dict[int, str]:
  names: dict[int, str] = {}
  for run in runs:
    if run.clients is None or "client" not in run.clients:
      continue
    for client_id, name in run.client_names.items():
      if names.setdefault(int(client_id), name) != name:
        return {}
  differ = len(set(names.values()) - {""}) == len(names)
  width = sum(_LETTER_WIDTH * len(name) + _GAP for name in names.values())
  return names if differ and width <= _MAX_WIDTH else {}
