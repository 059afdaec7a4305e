"""Runs a program: flags in; a mistake is one line on stderr and status 2.

From the definition of a flag to the line of an error, since an error names the
flag at fault. `paths` has the files and folders that flags name.
"""

import contextlib
import functools
import io
import os
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, TypeAlias

from absl import flags

from tasks import DataError
from tff_fair import escaping, spelling
from tff_fair.declared import Declared
from tff_fair.experiments import FieldError, RunError, interruption
from tff_fair.experiments.spec import spec_text

# How absl begins to say that a switch takes no such value, as a tuple.
_NOT_BOOLEAN = "('Non-boolean argument"
_HELP_NAMES = ("help", "helpshort", "helpfull")


_Holder: TypeAlias = "flags.FlagHolder[Any]"


class Group(NamedTuple):
  """Flags that belong together; the rare ones show with --helpfull alone."""

  title: str
  names: tuple[str, ...]
  rare: tuple[str, ...] = ()


class OptionalValueFlag(flags.Flag):
  """A flag that stands alone, --list, or with a value, --list=X or --list X."""

  def __init__(self, *args: object, **kwargs: object) -> None:
    # To absl, a flag that may stand alone is a boolean one.
    super().__init__(*args, boolean=True, **kwargs)


class _Parser(flags.ArgumentParser):
  """Reads the texts of a declared value."""

  def __init__(self, setting: Declared) -> None:
    self._setting = setting

  def parse(self, argument: object) -> object:
    """Returns the value of a text; of a default, the default."""
    if not isinstance(argument, str):
      return argument
    try:
      return self._setting.read(argument)
    except FieldError as error:  # absl names the flag and the text.
      raise ValueError(error.problem) from error

  def flag_type(self) -> str:
    """Returns the kind of value, in words."""
    return self._setting.expected


def define(
  setting: Declared, namespace: flags.FlagValues = flags.FLAGS
) -> flags.FlagHolder[Any]:
  """Defines the flag of a declared value."""
  if setting.annotation is bool:
    return flags.DEFINE_boolean(
      setting.name, setting.default, setting.meaning, flag_values=namespace
    )
  choices = f"<{'|'.join(setting.choices)}>: " if setting.choices else ""
  arguments = (setting.name, setting.default, f"{choices}{setting.meaning}")
  if setting.takes(True):  # Alone, it is true.
    found = flags.DEFINE_flag(
      OptionalValueFlag(
        _Parser(setting), flags.ArgumentSerializer(), *arguments
      ),
      namespace,
    )
  else:
    found = flags.DEFINE(_Parser(setting), *arguments, flag_values=namespace)

  def check(value: object) -> bool:
    try:
      return value is None or setting.check(value) is not None
    except FieldError as error:
      raise flags.ValidationError(error.problem) from error

  flags.register_validator(setting.name, check, flag_values=namespace)
  return found


class Flags(flags.FlagValues):
  """The flags of one program; others may give theirs the same names."""

  def _define(
    self, define: Callable[..., _Holder], *of: Any, **bounds: Any
  ) -> _Holder:
    return define(*of, flag_values=self, **bounds)

  text = functools.partialmethod(_define, flags.DEFINE_string)
  # Given once for each text.
  texts = functools.partialmethod(_define, flags.DEFINE_multi_string)
  # Texts with commas between them.
  names = functools.partialmethod(_define, flags.DEFINE_list)
  # One of some texts, which come before the meaning.
  choice = functools.partialmethod(_define, flags.DEFINE_enum)
  # --name or --noname.
  switch = functools.partialmethod(_define, flags.DEFINE_boolean)
  integer = functools.partialmethod(_define, flags.DEFINE_integer)
  number = functools.partialmethod(_define, flags.DEFINE_float)

  def verification(self) -> _Holder:
    """Defines the flag of programs that read runs."""
    return self.switch(
      "verify",
      False,
      "Read all files of the runs and compare their checksums with the "
      "recorded ones; report changes, with the exit status 1. By default only "
      "the sizes of tables and settings are compared.",
    )

  def program(
    self,
    main: Callable[..., None],
    description: str | None,
    title: str,
    **further: Any,
  ) -> "Program":
    """Returns the program of these flags, which are one group with a title."""
    groups = (Group(title, tuple(self)),)
    return Program(main, str(description), groups, namespace=self, **further)


class UsageError(Exception):
  """A mistake in the words of a command line; the text starts with the flag."""


class Program(NamedTuple):
  """A program with flags."""

  main: Callable[..., None]  # Takes the words that are not flags.
  description: str  # The first lines of the help.
  groups: Sequence[Group]
  arguments: str = ""  # The words that are not flags, as "RUN ...", if any.
  namespace: flags.FlagValues = flags.FLAGS  # Where the flags are defined.
  # Returns a hint for the name of a flag that another program has.
  elsewhere: Callable[[str], str | None] | None = None
  flag_names: Mapping[str, str] = MappingProxyType({})  # If not `--FIELD`.

  def run(self, argv: Sequence[str] | None = None) -> NoReturn:
    """Parses the flags, calls `main` and exits.

    The exit status is 0; 2 for a mistake of the user, which it reports in one
    line: a `UsageError`, `FieldError`, `RunError` or `DataError`; 1 if standard
    output is closed; 130 or 143 after Ctrl-C or SIGTERM.
    """
    argv = list(sys.argv if argv is None else argv)
    program = pathlib.Path(argv[0]).stem
    prepare()
    status = 0
    try:
      with interruption.raised(owns_process=True):
        _check_words(argv)
        words = parse(argv, self.groups, self.namespace, self.elsewhere)
        if words and not self.arguments:
          raise UsageError(
            f"{words[0]!r}: every argument must be a flag, such as "
            "--name=value; --helpfull shows all."
          )
        if any(self.namespace[name].value for name in _HELP_NAMES):
          usage = f"{program} {self.arguments}".rstrip()
          groups = list(self.groups)
          if self.namespace["helpfull"].value:
            groups = [group._replace(rare=()) for group in groups]
          print(_help(usage, self.description, groups, self.namespace))
        else:
          self.main(*words)
        sys.stdout.flush()
    except (UsageError, FieldError, RunError, DataError) as error:
      text = f"{program}: {line(error, self.flag_names)}"
      print(shortened(text), file=sys.stderr)
      status = 2
    except interruption.Interrupted as interrupted:
      print(f"Interrupted. {interrupted.advice}".rstrip(), file=sys.stderr)
      # As shells know it.
      status = 128 + interrupted.signal_number
    except BrokenPipeError:
      # The reader, such as `head`, has ended, so nothing is flushed at exit.
      discard_output()
      status = 1
    except OSError as error:
      if not is_output_lost():
        raise
      discard_output()
      print(f"{program}: cannot write its output: {error}.", file=sys.stderr)
      status = 1
    if (threads := sys.modules.get("tff_fair.runtime.threads")) is not None:
      threads.note_exit(SystemExit(status))
      threads.end()  # What an interrupted round still computes.
    sys.exit(status)


_MOST_CHARACTERS = 300


def shortened(text: str) -> str:
  """Returns a text as one line of 300 characters at most."""
  text = " ".join(text.split())
  if len(text) <= _MOST_CHARACTERS:
    return text
  half = (_MOST_CHARACTERS - len(" … ")) // 2
  return f"{text[:half].rstrip()} … {text[-half:].lstrip()}"


def _check_words(words: Sequence[str]) -> None:
  """Checks that the working directory is there, and that all words are UTF-8.

  Libraries ask for the directory; records and pages name it and the words.
  """
  try:
    place = os.getcwd()
  except OSError as error:
    raise UsageError(
      f"the working directory is gone ({error.strerror}); change to another "
      "one."
    ) from error
  for word in (*words, place):
    try:
      word.encode()
    except UnicodeEncodeError as error:
      byte = os.fsencode(word[error.start]).hex()
      raise UsageError(
        f"{word}: has the byte 0x{byte}, which is not UTF-8; rename the file "
        "or folder."
      ) from error


def line(
  error: Exception, flag_names: Mapping[str, str] = MappingProxyType({})
) -> str:
  """Returns the line that reports a mistake: the flag at fault first."""
  if isinstance(error, DataError):
    is_flag = error.setting in ("data_dir", "task")
    flag = error.setting if is_flag else f"task_option={error.setting}"
    named = error.problem if error.place == error.setting else error
    return f"--{flag}: {named}"
  if not isinstance(error, FieldError):
    text = str(error)
  else:
    text = f"{spec_text.as_flag(error, flag_names)}: {error.problem}"
  return escaping.line(" ".join(text.split()))


@contextlib.contextmanager
def blaming(flag: str, *kinds: type[Exception]) -> Iterator[None]:
  """Makes errors of some kinds begin with the flag at fault."""
  try:
    yield
  except kinds as error:
    raise UsageError(f"{flag}{error}") from error


def flag_values(
  groups: Sequence[Group], namespace: flags.FlagValues = flags.FLAGS
) -> dict[str, object]:
  """Returns the values of all flags of some groups by name."""
  return {
    name: namespace[name].value for group in groups for name in group.names
  }


def parse(
  argv: Sequence[str],
  groups: Sequence[Group],
  namespace: flags.FlagValues,
  elsewhere: Callable[[str], str | None] | None = None,
) -> list[str]:
  """Sets the flags; returns the words that are not flags."""
  for name in _HELP_NAMES:
    if name not in namespace:
      flags.DEFINE_boolean(
        name, False, "Show this and exit.", flag_values=namespace
      )
  # Flags may also come after other words.
  namespace.set_gnu_getopt()
  try:
    words = with_flagfile_paths(_with_values_joined(argv, namespace))
    words = _with_later_assignments(words, namespace)
    return list(namespace(words)[1:])
  except flags.UnrecognizedFlagError as error:
    name = error.flagname
    known = [*flag_values(groups, namespace), "flagfile", "help"]
    advice = spelling.question(
      name, known, "--helpfull shows all.", shown="--{}".format
    )
    hint = elsewhere(name) if elsewhere else None
    raise UsageError(
      f"--{name}: {hint or f'there is no such flag; {advice}'}"
    ) from error
  except flags.CantOpenFlagFileError as error:
    raise UsageError(
      f"--flagfile: {str(error).rpartition('flagfile: ')[2]}; give the path of "
      f"a file, or one of the included {', '.join(included_flagfiles())}."
    ) from error
  except UnicodeDecodeError as error:
    raise UsageError("--flagfile: the file is not a text file.") from error
  except (flags.Error, ValueError) as error:
    text, wrong, _ = str(error).removeprefix("flag ").partition(_NOT_BOOLEAN)
    if wrong:
      text += "expected nothing, true or false."
    raise UsageError(text) from error


def _with_values_joined(
  argv: Sequence[str], namespace: flags.FlagValues
) -> list[str]:
  """Writes `--list X` as `--list=X`, and so for `--flagfile X`."""
  words: list[str] = []
  for word in argv:
    name = words[-1].lstrip("-") if words and words[-1][:1] == "-" else ""
    takes_value = name == _FLAGFILE or (
      name in namespace and isinstance(namespace[name], OptionalValueFlag)
    )
    if takes_value and word[:1] != "-":
      words[-1] += f"={word}"
    else:
      words.append(word)
  return words


def _with_later_assignments(
  words: Sequence[str], namespace: flags.FlagValues
) -> list[str]:
  """Drops NAME=VALUE of a flagfile if a later argument sets NAME again."""
  found: list[tuple[str, int, tuple[str, str] | None]] = []
  of_files: set[int] = set()
  for place, word in enumerate(words):
    is_file = word.lstrip("-").startswith(f"{_FLAGFILE}=")
    if is_file:
      of_files.add(place)
    for text in namespace.read_flags_from_files([word]) if is_file else [word]:
      flag, _, value = text.lstrip("-").partition("=")
      name, equals, _ = value.partition("=")
      is_assignment = (
        text[:1] == "-"
        and equals
        and flag in namespace
        and isinstance(namespace[flag], flags.MultiFlag)
      )
      found.append((text, place, (flag, name) if is_assignment else None))
  last = {key: place for _, place, key in found if key is not None}
  return [
    text
    for text, place, key in found
    if key is None or place not in of_files or last[key] == place
  ]


def _help(
  usage: str,
  description: str,
  groups: Sequence[Group],
  namespace: flags.FlagValues,
) -> str:
  lines = [description.strip(), "", f"Usage: {usage} [--flag=value ...]"]
  for group in groups:
    lines += ["", group.title]
    for flag in (namespace[n] for n in group.names if n not in group.rare):
      lines += _described(flag)
    if group.rare:
      rare = ", ".join(f"--{name}" for name in group.rare)
      lines.append(_wrap(f"With --helpfull: {rare}.", first="  "))
  lines += [
    "",
    "Other flags",
    "  --flagfile=PATH",
    _wrap(
      "Read flags from a file, one per line; flags that come later on the "
      "command line replace them. PATH may be the name of an included file: "
      f"{', '.join(included_flagfiles())}."
    ),
    "  --help, --helpfull",
    _wrap("Show the usual flags, or all flags, and exit."),
  ]
  return "\n".join(lines)


def _described(flag: flags.Flag) -> list[str]:
  """Returns the lines of a flag in the help."""
  line, meaning = f"  --{flag.name}", _meaning(flag)
  if flag.boolean:
    if flag.default:
      line += f" (default: true; --no{flag.name} turns it off)"
  elif flag.default in (None, []):
    line += "=..."
  elif isinstance(flag.default, list):
    line += "=..."
    meaning += f" By default {', '.join(flag.default)}."
  else:
    line += f"=... (default: {flag.default})"
  return [line, _wrap(meaning)]


def _meaning(flag: flags.Flag) -> str:
  """Returns the help of a flag; absl adds choices, and that it is repeated."""
  text, repeated, _ = str(flag.help).partition(";\n    repeat this option")
  if repeated:
    text += ". Repeatable."
  choices, end, rest = text.partition(">: ")
  if text.startswith("<"):
    choices = choices.replace("|", " | ")  # So that lines may end there.
  return f"{choices}{end}{rest}"


def _wrap(text: str, first: str = " " * 6) -> str:
  words = " ".join(text.split())
  return str(flags.text_wrap(words, 80, indent=" " * 6, firstline_indent=first))


# Standard output and error to which a program can always write.


class _TakesAll(io.FileIO):
  """Standard error, which drops what the system does not take."""

  def write(self, content: Any, /) -> int:
    """Writes what it can; returns the number of all bytes."""
    try:
      written = super().write(content)
    except BrokenPipeError:
      raise
    except OSError:
      written = None
    # A pipe that does not wait takes a part, or nothing.
    return memoryview(content).nbytes if written is None else written


def prepare() -> None:
  """Makes the streams take all text, also where they are closed or full."""
  for number in range(3):
    try:
      os.fstat(number)
    except OSError:
      # It takes the free number, so that no later file gets it.
      os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
  for name in ("stdout", "stderr"):
    if getattr(sys, name) is None:  # Python's mark of a closed stream.
      setattr(sys, name, open(os.devnull, "w", errors="replace"))  # noqa: SIM115
  if isinstance(sys.stdout, io.TextIOWrapper):
    sys.stdout.reconfigure(errors="replace")
  # Not that of a test or a notebook.
  if sys.stderr is sys.__stderr__ and isinstance(sys.stderr, io.TextIOWrapper):
    sys.stderr = io.TextIOWrapper(
      io.BufferedWriter(_TakesAll(sys.stderr.fileno(), "w", closefd=False)),
      encoding=sys.stderr.encoding,
      errors=sys.stderr.errors,
      line_buffering=True,
    )


def is_output_lost() -> bool:
  """Returns whether standard output takes no more text."""
  try:
    print(flush=True)
  except OSError:
    return True
  return False


def discard_output() -> None:
  """Drops the rest of the output, which Python writes at its end."""
  os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# Names of the flagfiles that come with the programs, for `--flagfile`.


_FLAGFILE = "flagfile"
_FLAGFILES = pathlib.Path(__file__).parent / "flagfiles"
_SUFFIX = ".flags"


def included_flagfiles() -> tuple[str, ...]:
  """Returns the names under which `--flagfile` knows the included files."""
  return tuple(sorted(path.stem for path in _FLAGFILES.glob(f"*{_SUFFIX}")))


def with_flagfile_paths(words: Sequence[str]) -> list[str]:
  """Replaces the name of an included flagfile by the path of the file."""
  found = list(words)
  for place, word in enumerate(words):
    flag, _, name = word.partition("=")
    is_included = flag.lstrip("-") == _FLAGFILE and name in included_flagfiles()
    if is_included and not pathlib.Path(name).exists():
      found[place] = f"{flag}={_FLAGFILES / name}{_SUFFIX}"
  return found
