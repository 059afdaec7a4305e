"""What to convert into client data, and how: plain values that are checked.

Nothing here looks at a file.
"""

import dataclasses
import datetime
import pathlib
import typing
from collections.abc import Sequence
from typing import Literal

from tasks import cuts
from tff_fair import declared
from tff_fair.declared import FieldError

Format = Literal["cifar", "images", "leaf", "mnist", "plays", "stack_exchange"]
Split = Literal["source", "date", "random", "order"]
Partition = Literal["dirichlet", "iid", "shards"]

FORMATS: tuple[Format, ...] = typing.get_args(Format)
SPLITS: tuple[Split, ...] = typing.get_args(Split)
PARTITIONS: tuple[Partition, ...] = typing.get_args(Partition)

# The formats of which a request may name several sources.
OF_SEVERAL_SOURCES: tuple[Format, ...] = ("plays", "stack_exchange")

_PATHS = ("sources", "data_dir")
_LEAST = {
  "heldout_every": 2,
  "min_examples": 1,
  "seed": 0,
  "num_clients": 1,
  "shards_per_client": 1,
  "image_size": 1,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConversionRequest:
  """What to convert, where to, and how to split clients into train and test.

  Attributes:
    source_format: The format of the sources.
    sources: Files or folders to convert; paths may be strings.
    data_dir: The directory of the data, in which the file is written.
    output_name: Name of the file, which ends in .sqlite; None: the name that
      TFF's loader looks for, where there is one.
    overwrite: Whether to replace files that are there already.
    split: How train and test are told apart. source: as published; date: posts
      from `test_date` on are test; random: a random share of each client;
      order: the last share of each client. None: the first of these that the
      source allows.
    test_fraction: Share of each client's examples that is test data, where the
      split is random or by order.
    test_date: First day (UTC) of the test data, where the split is by date.
    heldout_every: Posts whose author's id this divides go to a third split.
    min_examples: Clients with fewer examples are dropped.
    seed: Seed of the random share, and of made-up clients.
    num_clients: Number of clients to make up; None: those of the source.
    partition: How made-up clients get their labels.
    concentration: Of the Dirichlet distribution; the smaller, the fewer labels
      a client has.
    shards_per_client: Number of shards of each client, where the partition is
      by shards.
    image_size: Side to which images of folders are resized; None: as they are.

  Raises:
    FieldError: If a value is not valid.
  """

  source_format: Format
  sources: Sequence[pathlib.Path]
  data_dir: pathlib.Path
  output_name: str | None = None
  overwrite: bool = False
  split: Split | None = None
  test_fraction: float = 0.2
  test_date: str = "2018-01-01"
  heldout_every: int = 10
  min_examples: int = 1
  seed: int = 0
  num_clients: int | None = None
  partition: Partition = "dirichlet"
  concentration: float = 0.5
  shards_per_client: int = 2
  image_size: int | None = None

  def __post_init__(self) -> None:
    for name, annotation in typing.get_type_hints(type(self)).items():
      if name not in _PATHS:
        self._set(name, declared.check(name, annotation, getattr(self, name)))
    self._set("sources", tuple(map(pathlib.Path, self.sources)))
    self._set("data_dir", pathlib.Path(self.data_dir))
    self._set("test_date", _day(self.test_date))
    self._check_sources()
    self._check_ranges()
    self._check_output_name()

  def _set(self, name: str, value: object) -> None:
    object.__setattr__(self, name, value)

  def _check_sources(self) -> None:
    if not self.sources:
      raise FieldError("sources", "are missing; name what to convert.")
    if len(self.sources) > 1 and self.source_format not in OF_SEVERAL_SOURCES:
      raise FieldError(
        "sources",
        f"{self.source_format} takes one source.",
        value=str(self.sources[1]),
      )

  def _check_output_name(self) -> None:
    name = self.output_name
    if name is not None and (
      pathlib.Path(name).name != name or not name.endswith(".sqlite")
    ):
      raise FieldError(
        "output_name",
        "expected a name without folders that ends in .sqlite.",
        value=name,
      )

  def _check_ranges(self) -> None:
    for name, least in _LEAST.items():
      value = getattr(self, name)
      if value is not None and value < least:
        raise FieldError(name, f"expected {least} or more.", value=value)
    if not 0 < self.test_fraction < 1:
      raise FieldError(
        "test_fraction",
        "expected more than 0 and less than 1.",
        value=self.test_fraction,
      )
    low, high = cuts.CONCENTRATION_RANGE
    if not low <= self.concentration <= high:
      raise FieldError(
        "concentration",
        f"expected a number between {low:g} and {high:g}.",
        value=self.concentration,
      )


def _day(text: str) -> str:
  try:
    return datetime.date.fromisoformat(text).isoformat()
  except ValueError:
    raise FieldError(
      "test_date", "expected a day as 2018-01-01.", value=text
    ) from None
