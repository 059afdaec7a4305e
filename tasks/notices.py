"""Notices about tasks and data; see `tff_fair.notices`."""

import pathlib
from collections import Counter
from collections.abc import Iterable, Sequence

from tff_fair import spelling
from tff_fair.notices import Notice, notify

__all__ = ["Notice", "endings", "notify", "notify_left_out"]


def endings(files: Iterable[pathlib.Path]) -> Counter[str]:
  """Counts files by ending, or by name without an ending; skips dot files."""
  return Counter(
    file.suffix.lower() or file.name
    for file in files
    if file.is_file() and not file.name.startswith(".")
  )


def notify_left_out(
  place: object, files: Iterable[pathlib.Path], taken: Sequence[str]
) -> None:
  """Notifies the user of ignored files, if any; the task reads only `taken`."""
  found = endings(files)
  if not found:
    return
  shown = [f"{n:,} {end}" for end, n in found.most_common()]
  notify(
    f"{place}: ignored files: {found.total():,} "
    f"({spelling.join_names(shown, 5)}); the task reads only "
    f"{', '.join(taken)}."
  )
