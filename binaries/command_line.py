"""Defines and runs programs; a user's mistake exits with one line, status 2.

Flags and error reports are in the same module because errors name the flag at
fault. `paths` handles the files and folders that flags name.
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
from tff_fair.declared import Field
from tff_fair.experiments import FieldError, RunError, interruption
from tff_fair.experiments.spec import spec_text

# How absl's error for a wrong boolean starts: its text is the repr of a tuple.
_NOT_BOOLEAN = "('Non-boolean argument"
# Errors about `runs` name RUN, the positional argument for folders of runs.
RUN_ARGUMENT = {"runs": "RUN"}
_HELP_NAMES = ("help", "helpshort", "helpfull")


_Holder: TypeAlias = "flags.FlagHolder[Any]"


class Group(NamedTuple):
  """Flags that belong together; only --helpfull shows the rare ones."""

  title: str
  names: tuple[str, ...]
  rare: tuple[str, ...] = ()


class OptionalValueFlag(flags.Flag):
  """A flag with an optional value: --list, --list=X or --list X."""

  def __init__(self, *args: object, **kwargs: object) -> None:
    # absl allows a flag without a value only if it is boolean.
    super().__init__(*args, boolean=True, **kwargs)


class _Parser(flags.ArgumentParser):
  """Parses a flag's string as the value of a declared setting."""

  def __init__(self, setting: Field) -> None:
    self._setting = setting

  def parse(self, argument: object) -> object:
    """Parses a string; returns a default, which is not a string, unchanged."""
    if not isinstance(argument, str):
      return argument
    try:
      return self._setting.read(argument)
    except FieldError as error:  # absl adds the flag's name and value.
      raise ValueError(error.problem) from error

  def flag_type(self) -> str:
    """Returns the expected kind of value, in words."""
    return self._setting.expected


def define(
  setting: Field, namespace: flags.FlagValues = flags.FLAGS
) -> flags.FlagHolder[Any]:
  """Defines the flag that sets a declared value."""
  if setting.annotation is bool:
    return flags.DEFINE_boolean(
      setting.name, setting.default, setting.meaning, flag_values=namespace
    )
  choices = f"<{'|'.join(setting.choices)}>: " if setting.choices else ""
  arguments = (setting.name, setting.default, f"{choices}{setting.meaning}")
  if setting.accepts(True):  # The flag without a value means True.
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
  """The flags of one program; other programs may use the same names."""

  def _define(
    self, define: Callable[..., _Holder], *arguments: Any, **bounds: Any
  ) -> _Holder:
    return define(*arguments, flag_values=self, **bounds)

  text = functools.partialmethod(_define, flags.DEFINE_string)
  # A repeatable flag, which collects strings.
  texts = functools.partialmethod(_define, flags.DEFINE_multi_string)
  # A list of strings, separated by commas.
  names = functools.partialmethod(_define, flags.DEFINE_list)
  # One of the strings in the third argument.
  choice = functools.partialmethod(_define, flags.DEFINE_enum)
  # A boolean flag: --name or --noname.
  switch = functools.partialmethod(_define, flags.DEFINE_boolean)
  integer = functools.partialmethod(_define, flags.DEFINE_integer)
  number = functools.partialmethod(_define, flags.DEFINE_float)

  def task_options(self) -> _Holder:
    """Defines the repeatable flag --task_option."""
    return self.texts("task_option", [], "NAME=VALUE, an option of the task")

  def verification(self) -> _Holder:
    """Defines the flag --verify, for programs that read runs."""
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
    """Returns a program whose help lists these flags in one group, `title`."""
    groups = (Group(title, tuple(self)),)
    return Program(main, str(description), groups, namespace=self, **further)


class UsageError(Exception):
  """A mistake on the command line; the message starts with the flag."""


class Program(NamedTuple):
  """A program with flags."""

  main: Callable[..., None]  # A function of the positional arguments.
  description: str  # The first lines of the help.
  groups: Sequence[Group]
  arguments: str = ""  # Positional arguments in the usage, such as "RUN ...".
  namespace: flags.FlagValues = flags.FLAGS  # The program's flags.
  # Maps an unknown flag to a hint if another program has the flag.
  flag_hint: Callable[[str], str | None] | None = None
  # The flag that sets each field, for fields that are not set by --FIELD.
  flag_names: Mapping[str, str] = MappingProxyType({})

  def run(self, argv: Sequence[str] | None = None) -> NoReturn:
    """Parses the flags, calls `main` and exits.

    The exit status is 0; 2 for a user's mistake, reported in one line: a
    `UsageError`, `FieldError`, `RunError` or `DataError`; 1 if standard output
    is closed or full; 130 or 143 after Ctrl-C or SIGTERM.
    """
    argv = list(sys.argv if argv is None else argv)
    program = pathlib.Path(argv[0]).stem
    prepare_streams()
    status = 0
    try:
      with interruption.raise_on_signal(owns_process=True):
        _check_words(argv)
        words = parse(argv, self.groups, self.namespace, self.flag_hint)
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
      text = f"{program}: {error_line(error, self.flag_names)}"
      print(shorten(text), file=sys.stderr)
      status = 2
    except interruption.Interrupted as interrupted:
      print(f"Interrupted. {interrupted.advice}".rstrip(), file=sys.stderr)
      # Shells report the same status for a program that a signal ended.
      status = 128 + interrupted.signal_number
    except BrokenPipeError:
      # The reader of a pipe, such as `head`, has ended: flush nothing at exit.
      discard_output()
      status = 1
    except OSError as error:
      if not is_output_lost():
        raise
      discard_output()
      print(f"{program}: cannot write its output: {error}.", file=sys.stderr)
      status = 1
    if (threads := sys.modules.get("tff_fair.runtime.threads")) is not None:
      threads.record_exit_status(SystemExit(status))
      threads.exit_if_computing()  # An interrupted round may still compute.
    sys.exit(status)


_MOST_CHARACTERS = 300


def shorten(text: str) -> str:
  """Returns a text as one line of at most 300 characters."""
  text = " ".join(text.split())
  if len(text) <= _MOST_CHARACTERS:
    return text
  half = (_MOST_CHARACTERS - len(" … ")) // 2
  return f"{text[:half].rstrip()} … {text[-half:].lstrip()}"


def _check_words(words: Sequence[str]) -> None:
  """Checks that the working directory exists, and that arguments are UTF-8.

  Libraries need the directory. Its path and the arguments must be UTF-8, since
  records and pages contain them.
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


def error_line(
  error: Exception, flag_names: Mapping[str, str] = MappingProxyType({})
) -> str:
  """Returns one line about a mistake, which starts with the flag at fault."""
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
def prefixing_errors(prefix: str, *kinds: type[Exception]) -> Iterator[None]:
  """Turns errors of `kinds` into `UsageError`s that begin with `prefix`."""
  try:
    yield
  except kinds as error:
    raise UsageError(f"{prefix}{error}") from error


def flag_values(
  groups: Sequence[Group], namespace: flags.FlagValues = flags.FLAGS
) -> dict[str, object]:
  """Returns the values of the groups' flags, by name."""
  return {
    name: namespace[name].value for group in groups for name in group.names
  }


def parse(
  argv: Sequence[str],
  groups: Sequence[Group],
  namespace: flags.FlagValues,
  flag_hint: Callable[[str], str | None] | None = None,
) -> list[str]:
  """Sets the flags; returns the positional arguments.

  `flag_hint` maps an unknown flag to a hint, or to None.
  """
  for name in _HELP_NAMES:
    if name not in namespace:
      flags.DEFINE_boolean(
        name, False, "Show this and exit.", flag_values=namespace
      )
  # Flags may also follow positional arguments.
  namespace.set_gnu_getopt()
  try:
    words = with_flagfile_paths(_with_values_joined(argv, namespace))
    words = _with_later_assignments(words, namespace)
    return list(namespace(words)[1:])
  except flags.UnrecognizedFlagError as error:
    name = error.flagname
    known = [*flag_values(groups, namespace), "flagfile", "help"]
    advice = spelling.suggest(
      name, known, "--helpfull shows all.", shown="--{}".format
    )
    hint = flag_hint(name) if flag_hint else None
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
  """Rewrites `--list X` as `--list=X`, and `--flagfile X` in the same way."""
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
  """Expands flagfiles; drops NAME=VALUE entries that a later flag replaces."""
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
      lines += _help_lines(flag)
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


def _help_lines(flag: flags.Flag) -> list[str]:
  """Returns a flag's lines in the help."""
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
  """Returns a flag's help, with absl's additions reworded."""
  text, repeated, _ = str(flag.help).partition(";\n    repeat this option")
  if repeated:
    text += ". Repeatable."
  choices, end, rest = text.partition(">: ")
  if text.startswith("<"):
    choices = choices.replace("|", " | ")  # Lines can break at spaces.
  return f"{choices}{end}{rest}"


def _wrap(text: str, first: str = " " * 6) -> str:
  words = " ".join(text.split())
  return str(flags.text_wrap(words, 80, indent=" " * 6, firstline_indent=first))


# The following functions keep standard output and standard error writable.


class _LossyStderr(io.FileIO):
  """Standard error that drops bytes which the system does not accept."""

  def write(self, content: Any, /) -> int:
    """Writes as much as possible; returns as if all bytes were written."""
    try:
      written = super().write(content)
    except BrokenPipeError:
      raise
    except OSError:
      written = None
    # A non-blocking pipe may accept only a part, or nothing.
    return memoryview(content).nbytes if written is None else written


def prepare_streams() -> None:
  """Makes the streams accept any text, even if they are closed or full."""
  for number in range(3):
    try:
      os.fstat(number)
    except OSError:
      # Occupy the free descriptor, so that no later file gets it.
      os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
  for name in ("stdout", "stderr"):
    if getattr(sys, name) is None:  # Python sets a closed stream to None.
      setattr(sys, name, open(os.devnull, "w", errors="replace"))  # noqa: SIM115
  if isinstance(sys.stdout, io.TextIOWrapper):
    sys.stdout.reconfigure(errors="replace")
  # Keep the stream if a test or a notebook has replaced it.
  if sys.stderr is sys.__stderr__ and isinstance(sys.stderr, io.TextIOWrapper):
    sys.stderr = io.TextIOWrapper(
      io.BufferedWriter(_LossyStderr(sys.stderr.fileno(), "w", closefd=False)),
      encoding=sys.stderr.encoding,
      errors=sys.stderr.errors,
      line_buffering=True,
    )


def is_output_lost() -> bool:
  """Returns whether standard output no longer accepts text."""
  try:
    print(flush=True)
  except OSError:
    return True
  return False


def discard_output() -> None:
  """Drops the buffered output, which Python would flush at exit."""
  os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# Flagfiles that are included with the programs, for `--flagfile=NAME`.


_FLAGFILE = "flagfile"
_FLAGFILES = pathlib.Path(__file__).parent / "flagfiles"
_SUFFIX = ".flags"


def included_flagfiles() -> tuple[str, ...]:
  """Returns the names of the included flagfiles."""
  return tuple(sorted(path.stem for path in _FLAGFILES.glob(f"*{_SUFFIX}")))


def with_flagfile_paths(words: Sequence[str]) -> list[str]:
  """Replaces names of included flagfiles by their paths."""
  found = list(words)
  for place, word in enumerate(words):
    flag, _, name = word.partition("=")
    is_included = flag.lstrip("-") == _FLAGFILE and name in included_flagfiles()
    if is_included and not pathlib.Path(name).exists():
      found[place] = f"{flag}={_FLAGFILES / name}{_SUFFIX}"
  return found
