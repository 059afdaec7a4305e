"""Tests that the benchmark of pictures ends at a signal as programs do."""

import signal

import pytest

from benchmarks import pictures
from tests.binaries import in_process


@pytest.mark.parametrize(
  ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_signal_ends_it(monkeypatch, number, status):
  work = lambda *_: signal.raise_signal(number)  # noqa: E731
  monkeypatch.setattr(pictures, "stationarity", work)
  outcome = in_process.run(pictures, "stationarity", "runs", "picture.svg")
  assert outcome.status == status
  assert outcome.stderr.startswith("Interrupted.")


@pytest.mark.parametrize("words", [(), ("sources", "out", "nonsense")])
def test_wrong_words_are_refused_in_a_line(words):
  assert "expected" in in_process.run(pictures, *words).refusal
