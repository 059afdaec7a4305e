"""Converts posts of Stack Exchange sites; clients are the posts' authors.

A dump is a `Posts.xml` of https://archive.org/details/stackexchange. Each
sentence of a question or an answer is an example, with the title and tags of
the question and the score of the post. Posts are split like TFF's data: by
date, and authors whose id is divisible by ten are held out.

Texts are as `tff.simulation.datasets.stackoverflow` describes them: lower case,
HTML symbols unescaped, non-ASCII characters removed, each punctuation mark a
token (except apostrophes and hyphens), URLs replaced by `<URL>`. This module
adds two rules: blocks of code (`<pre>`) are left out, and a sentence ends after
`.`, `!` or `?` before white space, and at the end of a block of text.
"""

import collections
import contextlib
import html
import json
import pathlib
import re
import sqlite3
import xml.parsers.expat
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tasks.conversions.client_data_writer import Example
from tasks.data_error import DataError
from tasks.formats import data_files, example_proto, sqlite_file

FILENAME = "stackoverflow.sqlite"
HELDOUT = "heldout"

_TYPES = {"1": "question", "2": "answer"}
_DATE = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d+)?")
_TAG = re.compile(r"[^<>|]+")
_CHUNK_BYTES = 1 << 16


class StackExchangePosts:
  """The posts of one or more sites."""

  def __init__(
    self,
    paths: Sequence[pathlib.Path],
    *,
    test_date: str | None = "2018-01-01",
    heldout_every: int = 10,
  ) -> None:
    """Takes the paths of dumps, and how to split posts.

    If `test_date` is None, dates do not split posts. Authors whose id is
    divisible by `heldout_every` are held out; 0 holds out none.
    """
    # Number of posts that did not become examples, by reason.
    self.left_out: collections.Counter[str] = collections.Counter()
    self._sites = _sites(paths)
    self._test_date = test_date
    self._heldout_every = heldout_every

  def examples(
    self, on_read: data_files.OnRead = data_files.ignore
  ) -> Iterator[Example]:
    """Yields the sentences of all posts."""
    for site, path in self._sites.items():
      prefix = f"{site}-" if len(self._sites) > 1 else ""
      # A question may come after its answers, so all questions are collected
      # first, in a temporary file, since a large site has millions.
      with contextlib.closing(sqlite3.connect("")) as connection:
        questions = _Questions(connection)
        for row in _rows(path, on_read):
          if row.attributes.get("PostTypeId") == "1":
            questions.add(row)
        for row in _rows(path, on_read):
          yield from self._sentences(row, questions, prefix)

  def _sentences(
    self, row: "_Row", questions: "_Questions", prefix: str
  ) -> Iterator[Example]:
    kind = _TYPES.get(row.text("PostTypeId"))
    if kind is None:
      self.left_out["neither question nor answer"] += 1
      return
    if "OwnerUserId" not in row.attributes:
      self.left_out["author unknown"] += 1
      return
    author = row.integer("OwnerUserId")
    if author < 1:
      self.left_out["written by the site itself"] += 1
      return
    question = row.attributes.get("Id" if kind == "question" else "ParentId")
    title_and_tags = questions.get(question)
    if title_and_tags is None:
      self.left_out["answer to a missing question"] += 1
      return
    found = sentences(row.text("Body"))
    if not found:
      self.left_out["without words"] += 1
      return
    title, tags = title_and_tags
    date = row.date()
    split = self._split(author, date)
    features: dict[str, example_proto.Value] = {
      "creation_date": date.encode(),
      "score": np.array([row.integer("Score")]),
      "tags": tags.encode(),
      "title": title.encode(),
      "type": kind.encode(),
    }
    for sentence in found:
      features["tokens"] = sentence.encode()
      yield Example(
        f"{prefix}{author}", example_proto.serialize(features), split
      )

  def _split(self, author: int, date: str) -> str | None:
    """Returns the split of a post; None if `SplitSettings` determines it."""
    if self._heldout_every and author % self._heldout_every == 0:
      return HELDOUT
    if self._test_date is None:
      return None
    return "test" if date >= self._test_date else "train"


class _Row(NamedTuple):
  """A post, and its position in a dump, for error messages."""

  place: str
  attributes: Mapping[str, str]

  def text(self, name: str) -> str:
    if name not in self.attributes:
      raise DataError(self.place, f"the post has no {name}.")
    return self.attributes[name]

  def integer(self, name: str) -> int:
    text = self.text(name)
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
      raise DataError(self.place, f"{name} is {text!r}, expected an integer.")
    return int(text)

  def date(self) -> str:
    """Returns the date in TFF's form, such as 2008-08-10 08:28:52.1 UTC."""
    text = self.text("CreationDate")
    match = _DATE.fullmatch(text)
    if match is None:
      raise DataError(
        self.place,
        f"CreationDate is {text!r}, expected a time such as "
        "2018-01-01T00:00:00.000.",
      )
    day, time, fraction = match.groups()
    return f"{day} {time}{(fraction or '').rstrip('.0')} UTC"


class _Questions:
  """A database of the titles and tags of questions, by question id."""

  def __init__(self, connection: sqlite3.Connection) -> None:
    self._connection = connection
    self._connection.execute(
      "CREATE TABLE questions (id TEXT PRIMARY KEY, title TEXT, tags TEXT)"
    )

  def add(self, row: _Row) -> None:
    number = row.text("Id")
    # Tags are <a><b> in old dumps, |a|b| in new ones.
    tags = "|".join(_TAG.findall(row.attributes.get("Tags", "")))
    try:
      self._connection.execute(
        "INSERT INTO questions VALUES (?, ?, ?)",
        [number, tokens(row.text("Title")), tags],
      )
    except sqlite3.IntegrityError as error:
      raise DataError(row.place, f"question {number} occurs twice.") from error

  def get(self, question: str | None) -> tuple[str, str] | None:
    return self._connection.execute(
      "SELECT title, tags FROM questions WHERE id = ?", [question]
    ).fetchone()


def _sites(paths: Sequence[pathlib.Path]) -> dict[str, pathlib.Path]:
  sites: dict[str, pathlib.Path] = {}
  for path in paths:
    stem = re.sub(r"[._-]?Posts\.xml(\.gz)?$", "", path.name, flags=re.I)
    site = stem or path.absolute().parent.name
    if site in sites:
      raise DataError(
        path,
        f"has the same name, {site}, as {sites[site]}; their authors' ids "
        "would be mixed up. Rename one, such as to SITE_Posts.xml or "
        "SITE/Posts.xml.",
      )
    sites[site] = path
  return sites


def _rows(path: pathlib.Path, on_read: data_files.OnRead) -> Iterator[_Row]:
  parser = xml.parsers.expat.ParserCreate()
  rows: list[_Row] = []
  depth = 0

  def start(name: str, attributes: dict[str, str]) -> None:
    nonlocal depth
    depth += 1
    if name != ("posts", "row")[min(depth, 2) - 1]:
      raise DataError(
        f"{path}, line {parser.CurrentLineNumber}",
        f"found the element {name}, expected posts with a row for each post: "
        "is it a Posts.xml?",
      )
    if depth == 2:
      place = f"{path}, line {parser.CurrentLineNumber}"
      rows.append(_Row(place, attributes))

  def end(name: str) -> None:
    nonlocal depth
    del name
    depth -= 1

  def declare_entity(name: str, *definition: object) -> None:
    del definition
    # Dumps have no entities, and entities could expand without limit.
    raise DataError(
      f"{path}, line {parser.CurrentLineNumber}",
      f"declares the entity {name}, which no Posts.xml does.",
    )

  parser.EntityDeclHandler = declare_entity
  parser.StartElementHandler = start
  parser.EndElementHandler = end
  with data_files.open_file(path, on_read) as file:
    try:
      while chunk := file.read(_CHUNK_BYTES):
        parser.Parse(chunk)
        yield from rows
        rows.clear()
      parser.Parse(b"", True)
      yield from rows
    except DataError:
      raise
    except (LookupError, ValueError) as error:
      raise DataError(path, f"its encoding cannot be read: {error}.") from error
    except xml.parsers.expat.ExpatError as error:
      reason = xml.parsers.expat.ErrorString(error.code)
      raise DataError(
        f"{path}, line {error.lineno}, column {error.offset + 1}",
        f"is not well-formed XML in its encoding: {reason}.",
      ) from error


# The functions below turn the HTML of a post into sentences and tokens.

_CODE = re.compile(r"<pre\b.*?(?:</pre>|\Z)", re.DOTALL | re.IGNORECASE)
_BLOCK = re.compile(
  r"</?(?:p|br|hr|li|ul|ol|dl|dt|dd|h[1-6]|blockquote|div|table|tr|td|th|pre)"
  r"\b[^>]*>",
  re.IGNORECASE,
)
_ELEMENT = re.compile(r"</?[a-z][^>]*>", re.IGNORECASE)
_END = re.compile(r"(?<=[.!?])\s+|\n")
_URL = re.compile(r"(?:(?:https?|ftp)://|www\.)[^\s<>\"]*[\w/#=&%-]")
# While a text is split, a character that no text contains stands for a URL.
_URL_MARK, _URL_TOKEN = "\0", "<URL>"
_TOKEN = re.compile(r"[a-z0-9'-]+|[^\sa-z0-9'-]")


def sentences(body: str) -> list[str]:
  """Returns a post's non-empty sentences; spaces separate the tokens."""
  text = " ".join(_CODE.sub("<p>", body).split())
  text = html.unescape(_ELEMENT.sub("", _BLOCK.sub("\n", text)))
  candidates = (tokens(part) for part in _END.split(text))
  return [sentence for sentence in candidates if sentence]


def tokens(text: str) -> str:
  """Returns a text's tokens, separated by spaces."""
  text = text.encode("ascii", "ignore").decode().lower()
  text = _URL.sub(_URL_MARK, text.replace(_URL_MARK, " "))
  return " ".join(_TOKEN.findall(text)).replace(_URL_MARK, _URL_TOKEN)


# The word and tag counts for TFF's `load_word_counts` and `load_tag_counts`.
#
# A count is the number of clients that have the word or tag in a training
# example. The files are like those that TFF unpacks from its downloads.

WORD_COUNTS = pathlib.Path("datasets/stackoverflow.word_count")
TAG_COUNTS = pathlib.Path("datasets/stackoverflow.tag_count")


def write_counts(
  data: pathlib.Path, *, directory: pathlib.Path, overwrite: bool = False
) -> None:
  """Writes the word and tag counts of data in TFF's `stackoverflow` format."""
  with contextlib.closing(sqlite3.connect("")) as connection:
    connection.execute(
      "CREATE TABLE counts (kind TEXT, token TEXT, count INTEGER,"
      " PRIMARY KEY (kind, token)) WITHOUT ROWID"
    )
    with data_files.reporting_damage(data, "is not data of stackoverflow"):
      _count(connection, data)
    for path, kind in ((WORD_COUNTS, "tokens"), (TAG_COUNTS, "tags")):
      counts = connection.execute(
        "SELECT token, count FROM counts WHERE kind = ? "
        "ORDER BY count DESC, token",
        [kind],
      )
      with (
        data_files.replacement(directory / path, overwrite=overwrite) as staged,
        staged.open("w", encoding="utf-8") as file,
      ):
        if path == TAG_COUNTS:
          json.dump(dict(counts), file)
        else:
          file.writelines(f"{word} {count}\n" for word, count in counts)


def _count(connection: sqlite3.Connection, data: pathlib.Path) -> None:
  separators = {"tokens": b" ", "tags": b"|"}
  with sqlite_file.connect(data) as source:
    for (client,) in source.execute(
      "SELECT DISTINCT client_id FROM client_metadata WHERE split_name = ?",
      ["train"],
    ):
      found: set[tuple[str, str]] = set()
      for (serialized,) in source.execute(
        "SELECT serialized_example_proto FROM examples "
        "WHERE split_name = ? AND client_id = ?",
        ["train", client],
      ):
        features = example_proto.parse(serialized)
        for kind, separator in separators.items():
          (text,) = features[kind]
          found.update(
            (kind, bytes(token).decode())
            for token in text.split(separator)
            if token
          )
      connection.executemany(
        "INSERT INTO counts VALUES (?, ?, 1) "
        "ON CONFLICT DO UPDATE SET count = count + 1",
        found,
      )
