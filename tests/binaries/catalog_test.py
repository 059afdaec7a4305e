"""Tests of the catalog: of a task or a method by its name."""

import subprocess
import sys

import pytest

import tasks
from binaries import catalog
from tests import source_tree
from tff_fair import methods

NAMES = (*tasks.names(), *methods.names())
# Prints all entries, and whether TensorFlow was imported for it.
_SHOW_ALL = """
import sys
from binaries import catalog
for name in sys.argv[1:]:
  print(catalog.entry(name))
print("tensorflow" in sys.modules)
"""


def values(text):
  """Returns the lines of an entry that show a value, as name=default."""
  lines = (line for line in text.splitlines() if line[:2] == "  ")
  return [line.strip() for line in lines if line[2] != " "]


@pytest.mark.parametrize("name", tasks.names())
def test_a_task_shows_each_of_its_options(name):
  text = catalog.entry(name)
  assert max(map(len, text.splitlines())) <= 80
  assert [line.split("=")[0] for line in values(text)] == [
    *tasks.option_names(name)
  ]
  for meaning in tasks.option_meanings(name).values():
    assert meaning in " ".join(text.split())


@pytest.mark.parametrize("name", methods.names())
def test_a_method_shows_each_of_its_hyperparameters(name):
  text = catalog.entry(name)
  assert max(map(len, text.splitlines())) <= 80
  hparams = methods.hyperparameters(name)
  shown = [line.split("=")[0] for line in values(text)]
  assert shown == ([*hparams] or ["none"])
  for hparam in hparams.values():
    assert hparam.meaning in " ".join(text.split())


def test_types_choices_defaults_and_bounds_are_shown():
  text = " ".join(catalog.entry("fedfv").split())
  assert "alpha=0.1 A finite number, in [0, 1]. Share of the clients" in text
  assert "order=loss One of loss, random, reverse. Order of the" in text
  assert "lipschitz=none A finite number or none, in (0, inf)." in " ".join(
    catalog.entry("qfedavg").split()
  )
  assert "num_clients=30 An integer or none. Number of clients." in " ".join(
    catalog.entry("digits").split()
  )


def test_entries_need_no_tensorflow():
  output = subprocess.run(
    [sys.executable, "-c", _SHOW_ALL, *NAMES],
    cwd=source_tree.ROOT,
    capture_output=True,
    text=True,
    timeout=60,
    check=True,
  ).stdout
  assert output.endswith("\nFalse\n")


@pytest.mark.parametrize("name", ["digits", "fedfv"])
def test_the_program_shows_the_entry_of_a_name(program, name):
  expected = (0, f"{catalog.entry(name)}\n", "")
  assert program(f"--list={name}") == expected
  assert program("--list", name) == expected
  assert program("--seed=1", "--list", name, "--batch_size=3") == expected


@pytest.mark.parametrize("words", [["--list=xyz"], ["--list", "xyz"]])
def test_an_unknown_name_is_one_line_with_the_names(program, words):
  outcome = program(*words)
  assert (outcome.status, outcome.stdout) == (2, "")
  (line,) = outcome.stderr.splitlines()
  assert line.startswith("train: --list=xyz: unknown name; the tasks are ")
  for name in NAMES:
    assert name in line


def test_a_near_name_is_guessed(program):
  (line,) = program("--list=digit").stderr.splitlines()
  assert line == "train: --list=digit: unknown name; did you mean digits?"


def test_a_word_after_the_name_is_still_a_mistake(program):
  outcome = program("--list", "digits", "fedavg")
  assert outcome.stderr.startswith("train: 'fedavg': every argument must be")
