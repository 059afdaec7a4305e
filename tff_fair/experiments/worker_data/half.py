"""One half of the data at the workers, as a run takes it."""

from typing import NamedTuple

from tff_fair.experiments.worker_data.index import WorkerData
from tff_fair.runtime import example_files


class ClientRows(NamedTuple):
  """A client's rows.

  Attributes:
    num_rows: Its number of examples.
    places: Where they are in each file.
  """

  num_rows: int
  places: tuple[example_files.Place, ...]


class WorkerHalf:
  """Knows where the rows of each client are."""

  def __init__(self, data: WorkerData, split: str) -> None:
    """Takes the folder, and the name of the half."""
    self._data = data
    self._split = split
    self._paths = [data.path(file) for file in data.files(split)]

  def rows(self, client_id: int) -> ClientRows:
    """Returns where a client's rows are."""
    first, number = self._data.client(self._split, client_id)
    return ClientRows(
      number,
      tuple(example_files.Place(path, first) for path in self._paths),
    )

  def label_variance(self, client_id: int) -> float:
    """Returns `scoring.variance` of a client's labels, if they are numbers."""
    return self._data.label_variance(self._split, client_id)
