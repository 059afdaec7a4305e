"""Tag prediction on Stack Overflow, by user, with logistic regression.

Reddi et al., "Adaptive Federated Optimization" (ICLR 2021), on TFF's native
data set. As in `tff.simulation.baselines.stackoverflow`, the input is the share
of each known word in a sentence and its post's title, and the labels are the
post's known tags.

The accuracy is recall at 5, as is usual for this task: over a client's
examples, the share of known tags that have one of the five largest logits.
"""

import dataclasses
import functools
import pathlib

import numpy as np

from tasks import models, task
from tasks.tff_native import native_clients, posts
from tff_fair import declared


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(posts.StackOverflowOptions):
  """Options of the task `stackoverflow_tag`."""

  num_tags: int = declared.positive_integer(
    500, "Number of tags to predict: the most frequent ones."
  )
  max_words: int = declared.positive_integer(
    128,
    "Maximum number of known words per example; the first ones count. Few "
    "sentences have more.",
  )


def load(
  config: Options, *, data_dir: pathlib.Path | None, seed: int, model_seed: int
) -> task.Task:
  """Builds the task; x is int32[n, max_words], y is float32[n, num_tags].

  x has the numbers, from 1, of an example's known words, padded with 0; y has
  zeros and ones. `data_dir` has `stackoverflow.sqlite`,
  `stackoverflow.word_count` and `stackoverflow.tag_count`; missing files are
  downloaded. None means the default locations of TFF's loaders.
  """
  words = posts.known_words(config, data_dir)
  tags = posts.known_tags(config, config.num_tags, data_dir)
  return posts.build_task(
    config,
    ["tokens", "title", "tags"],
    functools.partial(
      _to_arrays,
      words={word: number for number, word in enumerate(words, 1)},
      tags={tag: number for number, tag in enumerate(tags)},
      length=config.max_words,
    ),
    data_dir=data_dir,
    seed=seed,
    what=f"{len(words):,} words, {len(tags):,} tags",
    name="stackoverflow_tag",
    element_spec=task.element_spec(
      [config.max_words], "int32", y_shape=[len(tags)], y_dtype="float32"
    ),
    num_classes=len(tags),
    keras_model_fn=functools.partial(
      models.bag_of_words_regression, len(words), len(tags), model_seed
    ),
    objective=models.multi_label_objective(),
  )


def _to_arrays(
  examples: native_clients.Examples,
  *,
  words: dict[bytes, int],
  tags: dict[bytes, int],
  length: int,
) -> task.Arrays:
  x = np.zeros([len(examples["tokens"]), length], np.int32)
  for row, *parts in zip(x, examples["tokens"], examples["title"], strict=True):
    text = b" ".join(parts).split()
    known = [words[word] for word in text if word in words][:length]
    row[: len(known)] = known
  y = np.zeros([len(x), len(tags)], np.float32)
  for row, names in zip(y, examples["tags"], strict=True):
    row[[tags[tag] for tag in names.split(b"|") if tag in tags]] = 1
  return x, y
