"""Benchmarks that train in their own process end as programs do."""

import signal

import pytest

from benchmarks import natural_federations, pictures
from tests.binaries import in_process

PROGRAMS = (
  (natural_federations, "study", ("sources", "out", "digits")),
  (pictures, "stationarity", ("stationarity", "runs", "picture.svg")),
)


@pytest.mark.parametrize(("program", "work", "words"), PROGRAMS)
@pytest.mark.parametrize(
  ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_signal_ends_it(monkeypatch, program, work, words, number, status):
  monkeypatch.setattr(program, work, lambda *_: signal.raise_signal(number))
  outcome = in_process.run(program, *words)
  assert outcome.status == status
  assert outcome.stderr.startswith("Interrupted.")


@pytest.mark.parametrize("program", [natural_federations, pictures])
@pytest.mark.parametrize("words", [(), ("sources", "out", "nonsense")])
def test_wrong_words_are_refused_in_a_line(program, words):
  assert "expected" in in_process.run(program, *words).refusal
