"""Sentiment of tweets, by account.

Go et al., "Twitter Sentiment Classification using Distant Supervision" (2009),
as LEAF's JSON (Caldas et al., 2018): x is the text, or a list whose fifth entry
is the text; y is 0 for negative, 1 or 4 for positive. The model has two LSTMs
of 100 units, as in LEAF and AdaFedAdam, over the first 25 words, as in LEAF.

Words are runs of letters, digits and apostrophes, and each of ".,!?;", as in
LEAF, but in lower case, as in GloVe. The vocabulary is the most frequent words
of the training data, with ties in alphabetical order. The file `glove`, if
given, has word vectors, which are not trained; words without a vector are
unknown. Without this file, the model trains an embedding.
"""

import collections
import dataclasses
import functools
import pathlib
import re
from collections.abc import Mapping, Sequence

import numpy as np

from tasks import models, options, task
from tasks.data_error import DataError
from tasks.formats import data_files, example_checks, leaf_json
from tff_fair import declared

_WORD = re.compile(r"[\w']+|[.,!?;]")
_NUMBER_AT_END = re.compile(r" [-+.e\d]*\d\.?$")
_PADDING, _UNKNOWN, _FIRST_WORD = 0, 1, 2
# The index of the text among LEAF's columns of a tweet.
_TEXT = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(options.LstmOptions, options.LocalTestOptions):
  """Options of the task `sent140`."""

  sequence_length: int = declared.positive_integer(
    25, "Number of words that each tweet is cut or padded to."
  )
  vocab_size: int = declared.positive_integer(
    10_000,
    "Size of the vocabulary: the most frequent words of the training data.",
  )
  glove: str | None = declared.value(
    None,
    "Name of a file of word vectors in the folder of the data, such as "
    'glove.6B.100d.txt, with a line "word v1 v2 ..." for each word. None '
    "trains an embedding.",
  )
  embedding_size: int = declared.positive_integer(
    100, "Size of the embedding, if it is trained."
  )


def load(
  config: Options, *, data_dir: pathlib.Path | None, seed: int, model_seed: int
) -> task.Task:
  """Builds the task; x is int32[n, sequence_length], y int32[n], 1 if positive.

  x is 0 at padding. `data_dir` has LEAF's JSON and the file `glove`.
  """
  everyone = leaf_json.load_users(
    data_dir,
    functools.partial(_to_arrays, length=config.sequence_length),
    test_fraction=config.test_fraction,
    min_examples=config.min_examples,
    seed=seed,
  )
  users = everyone.sample(config.num_clients, seed)
  words = _most_frequent(users, config.vocab_size)
  embedding = None
  if config.glove is not None and data_dir is not None:
    words, embedding = _read_glove(data_dir / config.glove, words)
  numbers = {word: k for k, word in enumerate(words, _FIRST_WORD)}
  train, test = (
    _encode_words(half, numbers, config.sequence_length)
    for half in (users.train, users.test)
  )
  return task.Task(
    name="sent140",
    description=(
      f"Sent140: {users.describe()}, {len(words):,} words"
      f"{'' if embedding is None else f' with vectors of {config.glove}'}"
    ),
    client_names=users.names,
    train=train,
    test=test,
    element_spec=task.element_spec([config.sequence_length], "int32"),
    num_classes=2,
    keras_model_fn=functools.partial(
      models.sentence_lstm,
      len(words) + _FIRST_WORD,
      2,
      model_seed,
      embedding=embedding,
      embedding_size=config.embedding_size,
      num_layers=config.lstm_layers,
      units=config.lstm_units,
    ),
    objective=models.class_objective(),
  )


def _to_arrays(
  x: list[object], y: list[int | float | str], *, length: int
) -> task.Arrays:
  """Returns each tweet's words, joined by spaces, and the labels, int32[n]."""
  texts = np.empty([len(x)], object)
  for position, entry in enumerate(x):
    text = entry
    if isinstance(entry, list) and len(entry) > _TEXT:
      text = entry[_TEXT]
    if not isinstance(text, str):
      raise ValueError(
        f"example {position}: x must be a text, or a list whose entry "
        f"{_TEXT} is one, found {str(entry)[:60]!r}"
      )
    texts[position] = " ".join(_WORD.findall(text.lower())[:length])
  labels = example_checks.class_labels([float(label) for label in y], 5)
  labels[labels == 4] = 1
  return texts, example_checks.class_labels(labels, 2)


def _most_frequent(users: leaf_json.Users, size: int) -> list[str]:
  counts: collections.Counter[str] = collections.Counter()
  for client_id in range(len(users.names)):
    for text in users.train.load(client_id)[0]:
      counts.update(text.split())
  return sorted(counts, key=lambda word: (-counts[word], word))[:size]


def _read_glove(
  path: pathlib.Path, words: Sequence[str]
) -> tuple[list[str], np.ndarray]:
  """Returns the words that have vectors, and the vectors of all tokens.

  The first vector is zeros, for padding; the second is the mean of the words'
  vectors, for unknown words.
  """
  wanted = set(words)
  vectors: dict[str, np.ndarray] = {}
  size = None
  with data_files.open_file(path) as file:
    for line_number, line in enumerate(file, 1):
      try:
        # Words may have spaces, as in glove.840B.300d.txt.
        word, *values = line.decode().rstrip().rsplit(" ", size or -1)
        vector = np.array(values, np.float32)
        if size not in (None, len(vector)) or not len(vector):
          raise ValueError(f"has {len(vector)} numbers, expected {size}")
        if _NUMBER_AT_END.search(word):
          raise ValueError(f"has more than {size} numbers")
        if not np.isfinite(vector).all():
          raise ValueError("has numbers that are not finite")
      except ValueError as error:
        raise DataError(f"{path}, line {line_number}", f"{error}.") from error
      size = len(vector)
      if word in wanted:
        vectors[word] = vector
  known = [word for word in words if word in vectors]
  if not known:
    raise DataError(path, "has a vector for none of the data's words.")
  table = np.stack([vectors[word] for word in known])
  special = np.stack([np.zeros_like(table[0]), table.mean(axis=0)])
  return known, np.concatenate([special, table])


def _encode_words(
  half: task.Split, numbers: Mapping[str, int], length: int
) -> task.Split:
  def load(client_id: int) -> task.Arrays:
    texts, labels = half.load(client_id)
    x = np.full([len(texts), length], _PADDING, np.int32)
    for row, text in zip(x, texts, strict=True):
      words = text.split()
      row[: len(words)] = [numbers.get(word, _UNKNOWN) for word in words]
    return x, labels

  return task.Split(num_examples=half.num_examples, load=load)
