import os
import re
import signal
import subprocess
import sys

import pytest

from binaries import command_line
from binaries.flags import run_flags
from tests import source_tree
from tff_fair.experiments.errors import RunError


def described(program, flag):
  """Returns the flags that a help text describes."""
  outcome = program(flag, main=lambda: pytest.fail("called"))
  assert outcome.status == 0
  assert outcome.stderr == ""
  lines = outcome.stdout.splitlines()
  assert max(map(len, lines)) <= 80
  found = [re.match(r"  --([a-z_]+)", line) for line in lines]
  return [match[1] for match in found if match]


def test_helpfull_shows_every_flag_once_and_needs_no_main(program):
  flags = described(program, "--helpfull")
  declared = command_line.flag_values(run_flags.GROUPS)
  assert sorted(flags) == sorted([*declared, "flagfile", "help"])


def test_help_shows_the_flags_to_begin_with(program):
  flags = set(described(program, "--help")) - {"flagfile", "help"}
  assert len(flags) <= 45
  assert {"task", "algorithm", "client_learning_rate", "output_dir"} <= flags


def test_help_shows_defaults_and_breaks_long_choices(capsys):
  names = command_line.Flags()
  names.choice("kind", None, [f"kind_{k}" for k in range(20)], "The kind.")
  names.names("of", ["a", "b"], "What to take.")
  names.texts("pair", [], "NAME=VALUE")
  names.switch("cached", True, "Cache it.")
  with pytest.raises(SystemExit):
    names.program(pytest.fail, "It.", "Group: all.").run(["it", "--help"])
  text = capsys.readouterr().out
  assert max(map(len, text.splitlines())) <= 80
  words = " ".join(text.split())
  assert "kind_18 | kind_19>: The kind." in words
  assert "What to take. By default a, b." in words
  assert "NAME=VALUE. Repeatable." in words
  assert "--cached (default: true; --nocached turns it off) Cache it." in words


def test_a_usage_error_is_one_line_and_status_2(program):
  def main():
    raise command_line.UsageError("--x: wrong,\n  because\tit is.")

  assert program(main=main) == (2, "", "train: --x: wrong, because it is.\n")


@pytest.mark.parametrize("error", [command_line.UsageError, RunError])
def test_no_error_is_longer_than_300_characters(program, error):
  def main():
    raise error(f"--x: wrong,{' 1234567890' * 700}\nexpected y; give z.")

  status, _, stderr = program(main=main)
  assert status == 2
  assert stderr.startswith("train: --x: wrong, 1234567890")
  assert stderr.endswith(" expected y; give z.\n")
  assert 290 < len(stderr) <= 301


def test_an_unexpected_error_is_not_hidden(program):
  def main():
    raise RuntimeError("a bug")

  with pytest.raises(RuntimeError, match="a bug"):
    program(main=main)


@pytest.mark.parametrize(
  ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_signal_is_one_line_and_the_usual_status(program, number, status):
  outcome = program(main=lambda: signal.raise_signal(number))
  assert outcome == (status, "", "Interrupted.\n")


def test_a_reader_that_has_gone_leaves_no_traceback():
  reading, writing = os.pipe()
  os.close(reading)
  with open(writing, "wb") as stdout:
    result = subprocess.run(
      [sys.executable, "-m", "binaries.train", "--help"],
      check=False,
      cwd=source_tree.ROOT,
      stdout=stdout,
      stderr=subprocess.PIPE,
      timeout=60,
    )
  assert (result.returncode, result.stderr) == (1, b"")


@pytest.mark.parametrize(
  ("redirection", "status", "told"),
  [
    (">/dev/full", 1, "catalog: cannot write its output: .* No space left"),
    (">&-", 0, ""),
    (">/dev/full 2>/dev/full", 1, ""),
    ("<&- >&- 2>&-", 0, ""),
  ],
)
def test_the_output_may_be_full_closed_or_ascii(redirection, status, told):
  """Uses a program without TensorFlow, which starts in a second."""
  code = (
    "from binaries import command_line\n"
    "from tff_fair.experiments import progress\n"
    "def main():\n"
    "  progress.say('Progress of the work.')\n"
    "  print('3.2\\u00b0 ± 1 ' * 9000)\n"
    "command_line.Program(main, '', ()).run(['catalog'])\n"
  )
  result = subprocess.run(
    ["bash", "-c", f'"$0" -c "$1" {redirection}', sys.executable, code],
    check=False,
    cwd=source_tree.ROOT,
    capture_output=True,
    encoding="ascii",
    env={**os.environ, "PYTHONIOENCODING": "ascii"},
    timeout=60,
  )
  assert result.returncode == status, result.stderr
  said = "" if "2>" in redirection else "Progress of the work.\n"
  assert result.stderr.startswith(said)
  error = result.stderr.removeprefix(said)
  assert re.match(f"{told}.*$", error)
  assert error.count("\n") == (1 if told else 0)
  assert result.stdout[:7] in ("", "3.2? ? ")


def test_a_working_directory_that_is_gone_is_one_line(program):
  os.rmdir(os.getcwd())
  line = program(main=lambda: pytest.fail("called")).refusal
  assert line.startswith("train: the working directory is gone (")


def test_words_that_are_not_flags_may_come_anywhere(program):
  found = []
  outcome = program(
    "one",
    "--seed=7",
    "two",
    main=lambda *words: found.extend(words),
    arguments="RUN ...",
  )
  assert outcome == (0, "", "")
  assert found == ["one", "two"]


FLAGFILES = command_line.included_flagfiles()


@pytest.fixture
def parse(program):
  """Returns a function that parses arguments into a dict of flags' values."""

  def run(*arguments):
    values = {}

    def main():
      values.update(command_line.flag_values(run_flags.GROUPS))

    assert program(*arguments, main=main) == (0, "", "")
    return values

  return run


@pytest.mark.parametrize("form", ["--flagfile={}", "-flagfile={}"])
@pytest.mark.parametrize("name", FLAGFILES)
def test_an_included_flagfile_is_known_by_its_name(parse, name, form):
  values = parse(form.format(name), "--seed=7")
  assert name == f"{values['task']}_{values['algorithm']}"
  assert values["seed"] == 7


def test_the_later_of_two_values_wins(parse):
  values = parse("--flagfile=digits_fedavg", "--algorithm=term")
  assert values["algorithm"] == "term"


def test_a_flagfile_of_the_user_goes_before_an_included_one(parse):
  with open("digits_fedavg", "w") as file:
    file.write("--total_rounds=3\n")
  values = parse("--flagfile=digits_fedavg")
  assert values["total_rounds"] == 3


@pytest.mark.parametrize(
  ("arguments", "beginning", "words"),
  [
    (["--algoritm=x"], "--algoritm: ", ["did you mean --algorithm?"]),
    (["--batch_size=x"], "--batch_size=x: ", []),
    (["--batch_size=0"], "--batch_size=0: ", ["[1, 2147483647]"]),
    (["--client_learning_rate=1e39"], "--client_learning_rate=1e", ["float32"]),
    (["--client_optimizer=lion"], "--client_optimizer=lion: ", ["adam", "sgd"]),
    (
      ["--compilation_cache=often"],
      "--compilation_cache=often: expected nothing, true or false.",
      [],
    ),
    (["--list=perhaps"], "--list=perhaps: ", []),
    (["--nolist=1"], "--nolist=1 ", []),
    (["--flagfile=absent"], "--flagfile: ", ["absent", "digits_fedavg"]),
    (["--flagfile=."], "--flagfile: ", ["directory"]),
    (["--flagfile"], "--flagfile ", []),
    (["--seed"], "Missing value for flag --seed", []),
    (["digits"], "'digits': ", ["--name=value"]),
    (["--seed=1", "digits"], "'digits': ", []),
    (["--flagfile=binary"], "--flagfile: ", ["text"]),
    (["-"], "'-': ", []),
  ],
)
def test_a_bad_flag_is_one_line_that_names_it(
  program, arguments, beginning, words
):
  with open("binary", "wb") as file:
    file.write(b"\xff\xfe--seed=1")
  line = program(*arguments, main=lambda: pytest.fail("called")).refusal
  assert line.startswith(f"train: {beginning}")
  assert all(word in line for word in words), line
