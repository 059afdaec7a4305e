"""Random input, and random programs under TFF's own executors and ours.

FUZZ_EXAMPLES=5000 python -m pytest tests/fuzz --hypothesis-show-statistics

The statistics show how often cases ended in each way. A failing case is printed
with its arguments, and comes first in the next run of the command.
"""

import os
from collections.abc import Callable
from typing import Any

import hypothesis

_EXAMPLES = os.environ.get("FUZZ_EXAMPLES")
_CHECKS = list(hypothesis.HealthCheck)


def fuzzed(few: int) -> Callable[[Any], Any]:
  """Returns settings: `few` fixed examples, or FUZZ_EXAMPLES random ones."""
  return hypothesis.settings(
    max_examples=int(_EXAMPLES or few),
    derandomize=not _EXAMPLES,
    deadline=None,
    suppress_health_check=_CHECKS,
    # A seed has nothing to shrink.
    phases=[hypothesis.Phase.reuse, hypothesis.Phase.generate],
  )


def short(text: object) -> str:
  """Returns a text as one short line."""
  return ascii(text).strip("'\"")[:200]


def ended(group: str, error: Exception | None) -> None:
  """Counts how a case of a group ended; errors must have one line."""
  if error is not None:
    text = str(error).strip()
    assert text, error
    assert "\n" not in text, error
  end = "accepted" if error is None else "refused in one line"
  hypothesis.event(f"{group}: {end}")
