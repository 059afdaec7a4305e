"""Requests to convert files into client data, as plain, checked values.

This module does not access files.
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

# The formats that may have several sources.
OF_SEVERAL_SOURCES: tuple[Format, ...] = ("plays", "stack_exchange")


def _is_name(text: str) -> bool:
  return pathlib.Path(text).name == text and text.endswith(".sqlite")


def _is_day(text: str) -> bool:
  return bool(datetime.date.fromisoformat(text))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConversionRequest:
  """The source, the target and the train/test split of a conversion."""

  sources: Sequence[pathlib.Path]
  data_dir: pathlib.Path
  source_format: Format = declared.required("The format of the sources.")
  output_name: str | None = declared.value(
    None,
    "Name of the file to write; by default the one that TFF's loader looks "
    "for, if there is one.",
    expects="a name without folders that ends in .sqlite",
    is_valid=_is_name,
  )
  overwrite: bool = declared.value(False, "Replace existing files.")
  split: Split | None = declared.value(
    None,
    "Which examples become test data: source, as published; date, posts from "
    "--test_date on; random, a random share of each client's; order, the last "
    "share of each client's. By default the first that the source allows.",
  )
  test_fraction: float = declared.value(
    0.2,
    "With --split=random or order: share of each client's examples that "
    "becomes test data; each half gets at least one example.",
    **declared.BETWEEN_0_AND_1,
  )
  test_date: str = declared.value(
    "2018-01-01",
    "With --split=date: first day (UTC) of the test data.",
    expects="a day such as 2018-01-01",
    is_valid=_is_day,
  )
  heldout_every: int = declared.value(
    10,
    "Authors whose id is a multiple of this go into the split `heldout`, as in "
    "TFF.",
    minimum=2,
  )
  min_examples: int = declared.value(
    1, "Clients with fewer examples are dropped.", minimum=1
  )
  seed: int = declared.value(
    0, "Seed of the random split, and of the artificial clients.", minimum=0
  )
  num_clients: int | None = declared.value(
    None,
    "Number of artificial clients, if the source has none, or to replace those "
    "it has; for cifar, images and mnist.",
    minimum=1,
  )
  partition: Partition = declared.value(
    "dirichlet",
    "How artificial clients get their labels: dirichlet, iid or shards.",
  )
  concentration: float = declared.value(
    0.5,
    "Concentration of the Dirichlet distribution; the smaller, the fewer "
    "labels a client has.",
    minimum=cuts.CONCENTRATION_RANGE[0],
    maximum=cuts.CONCENTRATION_RANGE[1],
  )
  shards_per_client: int = declared.value(
    2,
    "With --partition=shards: number of shards per client.",
    minimum=1,
  )
  image_size: int | None = declared.value(
    None,
    "Width and height, in pixels, that images from folders are resized to.",
    minimum=1,
  )

  def __post_init__(self) -> None:
    checked = {
      name: field.check(getattr(self, name))
      for name, field in declared.fields_of(type(self)).items()
    }
    checked["sources"] = tuple(map(pathlib.Path, self.sources))
    checked["data_dir"] = pathlib.Path(self.data_dir)
    day = datetime.date.fromisoformat(checked["test_date"])
    checked["test_date"] = day.isoformat()
    for name, value in checked.items():
      object.__setattr__(self, name, value)  # The dataclass is frozen.
    if not self.sources:
      raise FieldError(
        "sources", "is missing; name the files or folders to convert."
      )
    if len(self.sources) > 1 and self.source_format not in OF_SEVERAL_SOURCES:
      raise FieldError(
        "sources",
        f"{self.source_format} takes one source.",
        value=str(self.sources[1]),
      )
