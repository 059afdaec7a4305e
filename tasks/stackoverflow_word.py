"""Next-word prediction on Stack Overflow, by user.

The data set is TFF's, as in Reddi et al., "Adaptive Federated Optimization"
(ICLR 2021); VRed and Semi-VRed use 20 of its users and a random split into
halves. Words become numbers as in `tff.simulation.baselines.stackoverflow`: 0
is padding, then come the known words, from 1, and one number each for unknown
words, the beginning and the end of a sentence. Unlike in that baseline, a
client's examples are whole arrays, and the loss excludes padding.
"""

import dataclasses
import functools
import pathlib
from typing import Literal

import numpy as np

from tasks import models, options, task
from tasks.tff_native import native_clients, posts
from tff_fair import declared


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(options.LstmOptions, posts.StackOverflowOptions):
  """Options of the task `stackoverflow_word`."""

  sequence_length: int = declared.positive_integer(
    20, "Number of words that each sentence is cut or padded to."
  )
  embedding_size: int = declared.positive_integer(
    96, "Size of the model's embedding."
  )
  lstm_units: int = 670
  lstm_layers: int = 1
  accuracy: Literal["all", "words"] = declared.value(
    "all",
    'The tokens that the accuracy counts. "all": all but padding, as TFF\'s '
    '"accuracy". "words": neither unknown words nor ends of sentences.',
  )


def load(
  config: Options, *, data_dir: pathlib.Path | None, seed: int, model_seed: int
) -> task.Task:
  """Builds the task; x and y are int32[n, sequence_length], y one word later.

  `data_dir` has `stackoverflow.sqlite` and `stackoverflow.word_count`; missing
  files are downloaded. None means the default locations of TFF's loaders.
  """
  words = posts.known_words(config, data_dir)
  unknown, beginning, end = range(len(words) + 1, len(words) + 4)
  num_tokens = len(words) + 4
  return posts.build_task(
    config,
    ["tokens"],
    functools.partial(
      _to_arrays,
      numbers={word: number for number, word in enumerate(words, 1)},
      special=(unknown, beginning, end),
      length=config.sequence_length,
    ),
    data_dir=data_dir,
    seed=seed,
    what=f"{len(words):,} words",
    name="stackoverflow_word",
    element_spec=task.element_spec(
      [config.sequence_length], "int32", y_shape=[config.sequence_length]
    ),
    num_classes=num_tokens,
    keras_model_fn=functools.partial(
      models.word_lstm,
      num_tokens,
      model_seed,
      embedding_size=config.embedding_size,
      num_layers=config.lstm_layers,
      units=config.lstm_units,
    ),
    objective=models.next_token_objective(
      not_counted={"all": (), "words": (unknown, end)}[config.accuracy]
    ),
  )


def _to_arrays(
  examples: native_clients.Examples,
  *,
  numbers: dict[bytes, int],
  special: tuple[int, int, int],
  length: int,
) -> task.Arrays:
  unknown, beginning, end = special
  sequences = np.zeros([len(examples["tokens"]), length + 1], np.int32)
  for sequence, text in zip(sequences, examples["tokens"], strict=True):
    words = text.split(b" ")[:length]
    found = [beginning, *(numbers.get(word, unknown) for word in words)]
    if len(words) < length:
      found.append(end)
    sequence[: len(found)] = found
  return sequences[:, :-1].copy(), sequences[:, 1:].copy()
