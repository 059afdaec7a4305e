"""The code blocks of the documents, and how a test runs them.

A block that is indented by four spaces, or in a "bash" fence, is for the shell.
Blocks in "python" and "toml" fences are in that language. A block in a fence
without a name shows the output of the commands above it. All blocks run in
order and unchanged, unless a comment before the block, which readers do not
see, says otherwise:

  <!-- run: OLD => NEW; ... -->        with replacements: fewer rounds, say
  <!-- not run: REASON -->             not at all
  <!-- not run: `COMMAND`: REASON -->  without the commands that begin so
  <!-- without data: TEXT -->          each command fails, and names TEXT
  <!-- file: NAME -->                  written to a file first

A comment with "from here" after its first words applies up to the next "from
here" of the page, or its end: <!-- not run from here: REASON -->.
"""

import dataclasses
import functools
import pathlib
import re
import textwrap
from collections.abc import Callable, Iterator

SHELL, PYTHON, TOML, OUTPUT = "bash", "python", "toml", ""
KINDS = (SHELL, PYTHON, TOML, OUTPUT)

_FENCE = re.compile(r" *```(\w*)$")
_COMMENT = re.compile(r"<!-- (\w[\w ]*?)( from here)?: (.*) -->$")
_KEYS = ("run", "not run", "without data", "file")
_COMMAND = re.compile(r"`([^`]+)`: (.+)")
_CONTINUED = re.compile(r"\\\n\s*")


class DirectiveError(ValueError):
  """A malformed comment about a code block."""


@dataclasses.dataclass(frozen=True)
class Directive:
  """A comment about code blocks: a key and a text."""

  key: str
  text: str

  def changes(self) -> Iterator[Callable[[str], str]]:
    """Yields the directive's changes to a block's code, in order."""
    if self.key == "run":
      for pair in self.text.split("; "):
        old, arrow, new = pair.partition(" => ")
        if arrow:
          yield functools.partial(_replace, old, new)
    elif self.key == "not run" and (command := _COMMAND.match(self.text)):
      yield functools.partial(_leave_out, command[1])


@dataclasses.dataclass(frozen=True)
class Block:
  """A code block."""

  line: int
  kind: str
  code: str
  directives: tuple[Directive, ...] = ()
  inherited: tuple[Directive, ...] = ()

  def texts(self, key: str) -> list[str]:
    both = (*self.inherited, *self.directives)
    return [d.text for d in both if d.key == key]

  @property
  def reason(self) -> str | None:
    """Why the block does not run; None if it does."""
    reasons = [t for t in self.texts("not run") if not _COMMAND.match(t)]
    return reasons[-1] if reasons else None

  @property
  def changed_code(self) -> str:
    """The code that runs."""
    code = self.code
    for directive in (*self.inherited, *self.directives):
      for change in directive.changes():
        changed = change(code)
        if changed == code and directive in self.directives:
          raise DirectiveError(f"changes nothing: {directive}")
        code = changed
    return code


def _replace(old: str, new: str, code: str) -> str:
  return code.replace(old, new)


def _leave_out(command: str, code: str) -> str:
  lines = commands(code)
  kept = [line for line in lines if not line.startswith(command)]
  return code if kept == lines else "\n".join([*kept, ""])


def commands(code: str) -> list[str]:
  """Returns the lines of a shell script, with continued lines joined."""
  return _CONTINUED.sub("", code).splitlines()


def read(page: pathlib.Path) -> list[Block]:
  """Returns a page's blocks of the kinds that run, unless a comment forbids."""
  return [block for block in parse(page.read_text()) if block.kind in KINDS]


def parse(text: str) -> Iterator[Block]:
  """Yields all code blocks of a page."""
  own: list[Directive] = []
  inherited: list[Directive] = []
  begun = False  # Whether only blank lines followed the last "from here".
  lines = text.splitlines()
  number = 0
  while number < len(lines):
    line = lines[number]
    if (comment := _COMMENT.match(line)) and comment[1] in _KEYS:
      directive = Directive(comment[1], comment[3])
      if comment[2]:
        inherited = [*(inherited if begun else []), directive]
        begun = True
      else:
        own.append(directive)
      number += 1
      continue
    begun = begun and not line.strip()
    end, block = _block_at(lines, number)
    if block:
      yield dataclasses.replace(
        block, directives=tuple(own), inherited=tuple(inherited)
      )
      own = []
    number = end
  if own:
    raise DirectiveError(f"no block follows: {own}")


def _block_at(lines: list[str], start: int) -> tuple[int, Block | None]:
  """Returns the next line to parse, and the block that begins at `start`."""
  if fence := _FENCE.match(lines[start]):
    end = next(
      n for n in range(start + 1, len(lines)) if lines[n].strip() == "```"
    )
    code = textwrap.dedent("\n".join(lines[start + 1 : end]))
    return end + 1, Block(start + 2, fence[1], code + "\n")
  if lines[start].startswith("    ") and _may_begin(lines, start):
    end = start
    while end < len(lines) and (
      lines[end].startswith("    ") or not lines[end]
    ):
      end += 1
    code = textwrap.dedent("\n".join(lines[start:end])).strip()
    return end, Block(start + 1, SHELL, code + "\n")
  return start + 1, None


def _may_begin(lines: list[str], number: int) -> bool:
  return (
    number == 0 or not lines[number - 1] or lines[number - 1].endswith("-->")
  )
