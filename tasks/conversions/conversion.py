"""Converts published data into client data, a file that TFF's loaders read.

request = ConversionRequest(
  source_format="plays", sources=["hamlet.txt"], data_dir="data"
)
conversion = plan(request)
conversion.write()
"""

import dataclasses
import pathlib

from tasks.conversions import (
  client_data_file,
  sources,
  test_choice,
  token_counts,
)
from tasks.conversions.client_data_file import Cut, Dropped
from tasks.conversions.request import ConversionRequest
from tasks.formats import whole_file


def _ignore(amount: int) -> None:
  del amount


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conversion:
  """A conversion that is ready to start.

  Attributes:
    request: What was asked for.
    contents: What the sources hold.
    path: The file to write.
    tables: Files of word and tag counts to write after it; may be empty.
  """

  request: ConversionRequest
  contents: sources.Contents
  path: pathlib.Path
  tables: tuple[pathlib.Path, ...]

  def write(self, on_progress: sources.OnProgress = _ignore) -> Dropped:
    """Writes the client data, whole or not at all.

    Args:
      on_progress: Told how much was read just now, in `contents.unit`.

    Returns:
      How many clients were dropped for being too small, and their examples.

    Raises:
      DataError: If the sources are damaged, the file is there already and may
        not be replaced, or a split would have no client.
    """
    return client_data_file.write(
      self.path,
      self.contents.examples(on_progress),
      self._cut(),
      overwrite=self.request.overwrite,
    )

  def write_tables(self) -> None:
    """Counts the words and tags of the written data.

    Raises:
      DataError: If a table is there already and may not be replaced.
    """
    if self.tables:
      token_counts.write(
        self.path,
        directory=self.request.data_dir,
        overwrite=self.request.overwrite,
      )

  def _cut(self) -> Cut:
    request, contents = self.request, self.contents
    choose_test = (
      test_choice.last_share(request.test_fraction)
      if contents.split == "order"
      else test_choice.random_share(request.test_fraction, request.seed)
    )
    return Cut(
      choose_test=choose_test,
      train=contents.train,
      test=contents.test,
      min_examples=request.min_examples,
      required=(contents.train, contents.test, *contents.heldout),
    )


def plan(request: ConversionRequest) -> Conversion:
  """Looks at the sources of a request; writes nothing.

  Raises:
    FieldError: If a source is missing, or the request does not suit it.
    DataError: If a source is damaged, or a table of counts is there already
      and may not be replaced.
  """
  contents = sources.read(request)
  tables = tuple(request.data_dir / name for name in contents.tables)
  for table in tables:  # Before the time for the data itself is spent.
    whole_file.check_free(table, overwrite=request.overwrite)
  return Conversion(
    request=request,
    contents=contents,
    path=request.data_dir / (request.output_name or contents.filename),
    tables=tables,
  )
