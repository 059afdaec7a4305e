"""Damages the folders of runs as disks, editors and people do.

A damage is a function of a file and a generator, so a seed repeats it. `read`
reads a run by all ways that there are, without TensorFlow.
"""

import copy
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Mapping

import numpy as np

from tff_fair.declared import FieldError
from tff_fair.experiments.comparing.side_by_side import compare
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.reporting.page import report
from tff_fair.experiments.runs import finding
from tff_fair.experiments.runs import folder as run_folder
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.sweeps import runner

# What the readers may raise; everything else is a traceback for a user.
ERRORS = (FieldError, RunError)

Damage = Callable[[pathlib.Path, np.random.Generator], None]

_CELLS = (
  *(b"", b"nan916", b"nan", b"-1", b"inf", b"-inf", b"1e400", b"0.5", b"True"),
  *(b"1" + b"0" * 400, b"9223372036854775808", b"4294967296", b"\xff\xfe"),
  *(b"=1+1", b'"', b"a,b", b"\xc2\xb0", b"[]", b" 7", b"1_0", b"0x10"),
)
_VALUES: tuple[object, ...] = (
  *(None, True, -1, 0.5, "text", "", [], [1], {}, {"a": 1}, 10**400),
  *(float("nan"), float("inf"), "\0", "a=b", ["a"], [None], {"a": {}}),
)


def cut_off(path: pathlib.Path, generator: np.random.Generator) -> None:
  """Leaves the beginning of a file."""
  content = path.read_bytes()
  path.write_bytes(content[: generator.integers(len(content))])


def empty(path: pathlib.Path, _: np.random.Generator) -> None:
  """Leaves nothing in a file."""
  path.write_bytes(b"")


def zeros(path: pathlib.Path, generator: np.random.Generator) -> None:
  """Writes zero bytes over a part of a file, as a power cut does."""
  content = bytearray(path.read_bytes())
  start, end = np.sort(generator.integers(len(content) + 1, size=2))
  content[start:end] = bytes(end - start)
  path.write_bytes(content)


def flipped_bits(path: pathlib.Path, generator: np.random.Generator) -> None:
  """Flips up to five bits."""
  content = bytearray(path.read_bytes())
  for place in generator.integers(8 * len(content), size=generator.integers(6)):
    content[place // 8] ^= 1 << int(place % 8)
  path.write_bytes(content)


def gone(path: pathlib.Path, _: np.random.Generator) -> None:
  """Removes a file."""
  path.unlink()


def a_folder(path: pathlib.Path, _: np.random.Generator) -> None:
  """Puts a folder in the place of a file."""
  path.unlink()
  path.mkdir()


def a_pipe(path: pathlib.Path, _: np.random.Generator) -> None:
  """Puts a pipe in the place of a file: a program that opens it waits."""
  path.unlink()
  os.mkfifo(path)


def a_link_to_nothing(path: pathlib.Path, _: np.random.Generator) -> None:
  """Puts a link to nothing in the place of a file."""
  path.unlink()
  path.symlink_to("nothing")


def another_cell(path: pathlib.Path, generator: np.random.Generator) -> None:
  """Replaces a cell of a table, which may be a title."""
  lines = [line.split(b",") for line in path.read_bytes().splitlines()]
  line = lines[generator.integers(len(lines))]
  new = _CELLS[generator.integers(len(_CELLS))]
  line[generator.integers(len(line))] = new
  _write_table(path, lines)


def another_column(path: pathlib.Path, generator: np.random.Generator) -> None:
  """Removes a column, empties it, or writes another over it."""
  lines = [line.split(b",") for line in path.read_bytes().splitlines()]
  one, other = generator.integers(len(lines[0]), size=2)
  way = generator.integers(3)
  for line in lines:
    if way == 0:
      del line[one]
    else:
      line[one] = b"" if way == 1 else line[other]
  _write_table(path, lines)


def other_rows(path: pathlib.Path, generator: np.random.Generator) -> None:
  """Repeats rows, removes rows, mixes them, or gives one more cells."""
  lines = [line.split(b",") for line in path.read_bytes().splitlines()]
  place = generator.integers(len(lines))
  way = generator.integers(5)
  if way == 0:
    lines.insert(generator.integers(len(lines)), list(lines[place]))
  elif way == 1:
    del lines[place]
  elif way == 2:
    del lines[place:]
  elif way == 3:
    lines = [lines[0], *(lines[i] for i in generator.permutation(len(lines)))]
  else:
    lines[place] += [b"7"] * int(generator.integers(1, 4))
  _write_table(path, lines)


def another_value(path: pathlib.Path, generator: np.random.Generator) -> None:
  """Replaces or removes a value somewhere in a JSON file."""
  content = {"": json.loads(path.read_text())}
  place, key = content, ""
  while (
    isinstance(place[key], dict) and place[key] and generator.random() < 0.9
  ):
    place = place[key]
    key = list(place)[generator.integers(len(place))]
  if generator.random() < 0.2:
    del place[key]
  else:
    place[key] = copy.deepcopy(_VALUES[generator.integers(len(_VALUES))])
  path.write_text(json.dumps(content.get("")))


def deep(path: pathlib.Path, generator: np.random.Generator) -> None:
  """Nests JSON deeper than Python's stack."""
  depth = int(generator.integers(1000, 200_000))
  path.write_text("[" * depth + "]" * depth)


_OF_ALL: tuple[Damage, ...] = (
  *(cut_off, empty, zeros, flipped_bits, gone),
  *(a_folder, a_pipe, a_link_to_nothing),
)
DAMAGES: Mapping[str, tuple[Damage, ...]] = {
  # Those that a reader is more likely to stumble over come several times.
  ".csv": (*_OF_ALL, *(another_cell, another_column, other_rows) * 4),
  ".json": (*_OF_ALL, deep, *(another_value,) * 10),
}


def damage(folder: pathlib.Path, generator: np.random.Generator) -> str:
  """Damages a table or a JSON file of a run.

  Args:
    folder: The folder of the run.
    generator: Decides the file and its damage.

  Returns:
    The name of the damage and the file.
  """
  files = sorted(p for p in folder.iterdir() if p.suffix in DAMAGES)
  path = files[generator.integers(len(files))]
  choices = DAMAGES[path.suffix]
  chosen = choices[generator.integers(len(choices))]
  if path.stat().st_size:
    chosen(path, generator)
  return f"{chosen.__name__} in {path.name}"


def read(
  folder: pathlib.Path, page: pathlib.Path, whole: Run
) -> list[Exception]:
  """Reads a run by all ways that need no TensorFlow.

  Args:
    folder: The folder of the run.
    page: Where a report may go.
    whole: The run before its damage.

  Returns:
    The errors, each one of `ERRORS`.

  Raises:
    Exception: Anything else that a reader raised.
  """

  def values_of_run() -> None:
    run = finding.open_run(folder)
    run.client_names.to_dict()
    run.differences(run.spec)

  def resume() -> None:
    taken = run_folder.RunFolder(folder)
    with run_folder.take_folder([taken.path], whole.config):
      pass

  def show() -> None:
    runs, _ = finding.find_whole(folder)
    compare(runs, columns=["mean", "loss"], unfinished=True)
    compare(runs, round="best", criterion="worst_10", unfinished=True)
    report(runs, page, unfinished=True, overwrite=True)

  errors: list[Exception] = []
  for reader in (
    values_of_run,
    resume,
    lambda: runner.state_of(whole.spec, folder),
    show,
  ):
    try:
      reader()
    except ERRORS as error:
      errors.append(error)
  return errors


def trial(
  sample: pathlib.Path, folder: pathlib.Path, seed: int
) -> tuple[str, list[Exception]]:
  """Damages a copy of a run, and reads it.

  Args:
    sample: The folder of a whole run.
    folder: The folder for the copy.
    seed: Decides the damage.

  Returns:
    The damage, and the errors of the readers.

  Raises:
    Exception: Of a reader that broke down; its notes tell the damage.
  """
  generator = np.random.default_rng(seed)
  copied = folder / f"run-{seed}"
  shutil.copytree(sample, copied)
  done = damage(copied, generator)
  try:
    return done, read(copied, folder / "page.html", finding.open_run(sample))
  except Exception as error:
    error.add_note(f"seed {seed}: {done}")
    raise


def _write_table(path: pathlib.Path, lines: list[list[bytes]]) -> None:
  path.write_bytes(b"".join(b",".join(line) + b"\r\n" for line in lines))
