"""Shows how a run gets on: a bar on a terminal, otherwise a line now and then.

Writes to stderr; stdout is for results.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import typing
from collections.abc import Callable
from typing import Self

import tqdm

if typing.TYPE_CHECKING:
  from tff_fair.experiments.training.loop import Evaluation

# Without a terminal, there is a line for each evaluation and one in so long.
_SECONDS_PER_LINE = 30.0


def say(text: str) -> None:
  """Writes a line for whoever watches."""
  print(text, file=sys.stderr, flush=True)


def say_on_screen(text: str) -> None:
  """Writes a line on a terminal; a log does without it."""
  if _is_on_screen():
    say(text)


def follow(
  total_rounds: int, *, completed_rounds: int = 0, is_silent: bool = False
) -> contextlib.AbstractContextManager[
  Callable[[int, Evaluation | None], None]
]:
  """Returns what follows the rounds of a run; see `Progress`."""
  if is_silent:
    return contextlib.nullcontext(lambda *_: None)
  return Progress(total_rounds, completed_rounds=completed_rounds)


class Progress:
  """Follows the rounds of a run."""

  def __init__(self, total_rounds: int, *, completed_rounds: int = 0) -> None:
    self._total = total_rounds
    self._start = self._last_line = time.monotonic()
    self._first = completed_rounds
    self._bar = None
    if _is_on_screen():
      self._bar = tqdm.tqdm(
        total=total_rounds,
        initial=completed_rounds,
        unit="round",
        dynamic_ncols=True,
        file=sys.stderr,
      )

  def __enter__(self) -> Self:
    return self

  def __exit__(self, *exc_info: object) -> None:
    if self._bar is not None:
      self._bar.close()

  def __call__(self, round_num: int, evaluation: Evaluation | None) -> None:
    """Reports the end of a round, and its evaluation if there was one."""
    if self._bar is not None:
      if evaluation is not None:
        self._bar.set_postfix_str(_describe(evaluation), refresh=False)
      self._bar.update()
      return
    now = time.monotonic()
    if evaluation is None and now - self._last_line < _SECONDS_PER_LINE:
      return
    self._last_line = now
    rate = (now - self._start) / (round_num - self._first)
    width = len(str(self._total))
    line = f"round {round_num:{width}}/{self._total}, {rate:.2f} s a round"
    say(line if evaluation is None else f"{line}, {_describe(evaluation)}")


def _is_on_screen() -> bool:
  try:
    return os.get_terminal_size(sys.stderr.fileno()).lines > 0
  except (OSError, ValueError):
    return False


def _describe(evaluation: Evaluation) -> str:
  accuracy = evaluation.summary["accuracy"]
  return (
    f"accuracy {accuracy['mean']:.1%}, std {accuracy['std']:.1%}, "
    f"worst 10% {accuracy['worst_10']:.1%}"
  )
