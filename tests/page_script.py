"""Turns a page's code blocks into a script; defines what the script calls."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence

from tests import code_blocks

_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?|\bnan\b")
_shown = ""


def write(page_name: str, blocks: Sequence[code_blocks.Block]) -> str:
  """Returns a script that runs the blocks of a page, in one process."""
  parts = ["from tests import page_script", ""]
  for block in blocks:
    if block.reason:
      continue
    code = block.changed_code
    parts.append(f"page_script.begin({f'{page_name}:{block.line}'!r})")
    for name in block.texts("file"):
      parts.append(f"page_script.save({name!r}, {code!r})")
    if data := block.texts("without data"):
      parts.append(f"page_script.fail({code!r}, {data[-1]!r})")
    elif block.kind == code_blocks.PYTHON:
      parts.append(code)
    else:
      call = {
        code_blocks.SHELL: "shell",
        code_blocks.TOML: "plan",
        code_blocks.OUTPUT: "compare",
      }[block.kind]
      parts.append(f"page_script.{call}({code!r})")
  return "\n".join(parts)


def begin(place: str) -> None:
  """Prints the place of the next block."""
  print(f"\n=== {place}", flush=True)


def save(name: str, content: str) -> None:
  """Writes the file that a block shows."""
  with open(name, "x") as file:
    file.write(content)


def shell(code: str) -> None:
  """Runs a block of commands."""
  global _shown  # noqa: PLW0603
  done = _run("set -euo pipefail\n" + code)
  _shown = done.stdout
  if done.returncode:
    sys.exit(f"The block ended with status {done.returncode}.")


def fail(code: str, text: str) -> None:
  """Runs commands without their data: each must fail, and print `text`."""
  for command in code_blocks.commands(code):
    done = _run(command)
    if done.returncode != 2 or text not in done.stdout:
      sys.exit(f"Expected status 2 and a line that names {text}: {command}")


def plan(content: str) -> None:
  """Lists the runs of a sweep file with this content."""
  name = "shown_on_the_page.toml"
  with open(name, "w") as file:
    file.write(content)
  shell(f"python -m binaries.sweep --file={name} --dry_run")


def compare(expected: str) -> None:
  """Exits if a line of `expected` was not printed; its numbers may differ."""
  printed = {rough(line) for line in _shown.splitlines()}
  missing = [x for x in expected.splitlines() if rough(x) not in printed]
  if missing:
    sys.exit("Not printed, numbers apart:\n" + "\n".join(missing))


def rough(line: str) -> str:
  """Returns a line with # for its numbers, no asterisks and single spaces."""
  return " ".join(_NUMBER.sub("#", line).replace("*", " ").split())


def _run(code: str) -> subprocess.CompletedProcess:
  done = subprocess.run(
    ["bash", "-c", code],
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    stdin=subprocess.DEVNULL,
    env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    text=True,
    check=False,
  )
  print(done.stdout, flush=True)
  return done
