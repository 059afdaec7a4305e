"""Converts plays in plain text; clients are roles, as in TFF's `shakespeare`.

An example is a speech: a line with the speaker's name and a colon, and all
following lines up to an empty one.
"""

import collections
import pathlib
import re
from collections.abc import Iterator, Sequence

from tasks.conversions.client_data_writer import Example
from tasks.data_error import DataError
from tasks.formats import data_files, example_proto

FILENAME = "shakespeare.sqlite"

_SPEAKER = re.compile(r"([^\s:][^:]*?)\s*:\s*")


class Plays:
  """The speeches of one or more plays."""

  def __init__(self, paths: Sequence[pathlib.Path]) -> None:
    """Takes the plays' files, which must have different names."""
    # Number of paragraphs that did not become examples, by reason.
    self.left_out: collections.Counter[str] = collections.Counter()
    self._plays: dict[str, pathlib.Path] = {}
    for path in paths:
      play = _word(path.name.removesuffix(".gz").removesuffix(".txt"))
      if play in self._plays:
        raise DataError(
          path,
          f"has the same name as {self._plays[play]}; their roles would be "
          "mixed up. Rename one.",
        )
      self._plays[play] = path

  def examples(
    self, on_read: data_files.OnRead = data_files.ignore
  ) -> Iterator[Example]:
    """Yields an example for each speech; its client is the speaking role."""
    for play, path in self._plays.items():
      prefix = f"{play}_" if len(self._plays) > 1 else ""
      has_speakers = False
      for paragraph in _paragraphs(path, on_read):
        match = _SPEAKER.fullmatch(paragraph[0])
        if match is None:
          self.left_out["without a speaker"] += 1
        elif len(paragraph) == 1:
          self.left_out["without a speech"] += 1
        else:
          snippet = "\n".join(paragraph[1:])
          yield Example(
            f"{prefix}{_word(match[1])}",
            example_proto.serialize({"snippets": snippet.encode()}),
          )
        has_speakers = has_speakers or match is not None
      if not has_speakers:
        raise DataError(
          path,
          "has no speaker: expected a line such as 'First Citizen:' above "
          "each speech, and an empty line below.",
        )


def _paragraphs(
  path: pathlib.Path, on_read: data_files.OnRead
) -> Iterator[list[str]]:
  paragraph: list[str] = []
  for _, line in data_files.lines(path, on_read):
    if text := line.rstrip():
      paragraph.append(text)
    elif paragraph:
      yield paragraph
      paragraph = []
  if paragraph:
    yield paragraph


def _word(name: str) -> str:
  return "_".join(name.split())
