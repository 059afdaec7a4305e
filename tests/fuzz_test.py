"""A short run of `benchmarks.fuzz`: nothing hostile escapes."""

import itertools
import random

import pytest

from benchmarks import fuzz, fuzzing
from tff_fair import algorithms

pytestmark = pytest.mark.tff


@pytest.mark.parametrize(
  ("kind", "most"), [("flags", 400), ("files", 300), ("clients", 20)]
)
def test_nothing_escapes(kind, most):
  found = fuzz.fuzz(kind, seed=16, seconds=120, most=most)
  assert not found.escaped
  assert found.counts.total() > most / 10


def test_nothing_escapes_from_secure_sums(monkeypatch):
  choose = random.Random.choice

  def choice(self, values):
    return "secure" if "secure" in values else choose(self, values)

  monkeypatch.setattr(algorithms, "names", lambda: ("fedavg_n",))
  monkeypatch.setattr(random.Random, "choice", choice)
  found = fuzz.fuzz("clients", seed=16, seconds=120, most=10)
  assert not found.escaped
  assert found.counts.total() == 10


def test_what_escapes_is_told_and_is_the_status(monkeypatch, capsys):
  def escape():
    raise KeyError("of a parser")

  def cases(*_):
    ends = (
      lambda: fuzzing.one_line("too long"),
      lambda: fuzzing.one_line("x\ny"),
      escape,
    )
    for run in itertools.cycle(ends):
      yield fuzzing.Case(room="room", name="a case", run=run)

  monkeypatch.setitem(fuzz.KINDS, "flags", cases)
  assert fuzz.main(["--kind=flags", "--seconds=0.2"]) == 1
  output = capsys.readouterr().out
  assert "ESCAPED room: KeyError in fuzz_test.py" in output
  assert "ESCAPED room: EscapeError in __init__.py" in output
  assert "refused in one line" in output
