"""Tests of tff-fair-demonstrate; tests/demonstrations checks the claims."""

import pytest

import demonstrations
from binaries import demonstrate
from tests.binaries import in_process

NAME = "semi_vred_lemma_3"


program = in_process.program_of(demonstrate)


def test_no_name_lists_all(program):
  status, out, _ = program()
  assert status == 0
  assert out.split() == list(demonstrations.NAMES)


def test_a_demonstration_is_printed_and_drawn(program, tmp_path):
  status, out, err = program(NAME, "--output=drawing.svg")
  assert status == 0
  assert "Semi-VRed, Lemma 3" in out
  assert "FAILS" not in out
  assert "drawing.svg: written" in err
  drawing = tmp_path / "drawing.svg"
  assert "<svg" in drawing.read_text()
  assert "exists already" in program(NAME, "--output=drawing.svg").refusal
  assert program(NAME, "--output=drawing.svg", "--overwrite")[0] == 0


@pytest.mark.parametrize(
  ("words", "said"),
  [
    (("nothing",), "'nothing': expected one demonstration of adafed_figure_1"),
    ((NAME, NAME), "expected one demonstration"),
    ((NAME, "--output=a.txt"), "--output=a.txt: expected a name that ends"),
    ((NAME, "--output=/proc/no/a.png"), "is another name of an open"),
    ((NAME, "--output=~no_such_user/a.png"), "there is no such home directory"),
  ],
)
def test_mistakes_are_one_line(program, words, said):
  assert said in program(*words).refusal


def test_a_claim_that_fails_is_the_status(program, monkeypatch):
  check = demonstrations.Check("A claim:", "0 > 1", holds=False)
  wrong = demonstrations.Demonstration("T", "S", [check], print)
  monkeypatch.setattr(demonstrations, "demonstrate", lambda _: wrong)
  status, out, _ = program(NAME)
  assert status == 1
  assert "[FAILS] A claim: 0 > 1" in out
