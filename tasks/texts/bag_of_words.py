"""Texts as bags of words: the share that each frequent word has in a text."""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

# Letters and digits, and an apostrophe within.
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")


class BagOfWords:
  """Makes x of texts.

  Attributes:
    words: The most frequent words of the training texts, in that order; those
      that are as frequent in alphabetical order.
  """

  def __init__(
    self, texts: Sequence[str], train: np.ndarray, num_words: int
  ) -> None:
    """Counts the words of the training texts.

    Args:
      texts: All texts.
      train: Positions of those to count, int64[n].
      num_words: Number of words at most.
    """
    counts = Counter(
      word for position in train for word in _words(texts[position])
    )
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    self.words = ordered[:num_words]
    number = {word: k for k, word in enumerate(self.words)}
    self._numbers = [
      np.array([number[w] for w in _words(text) if w in number], np.int32)
      for text in texts
    ]

  def __call__(self, positions: np.ndarray) -> np.ndarray:
    """Returns x of some texts, float32[n, words]; 0 of a text without words."""
    x = np.zeros([len(positions), len(self.words)], np.float32)
    for row, position in zip(x, positions, strict=True):
      numbers = self._numbers[position]
      np.add.at(row, numbers, np.float32(1 / max(1, len(numbers))))
    return x


def _words(text: str) -> list[str]:
  return _WORD.findall(text.lower())
