"""A short run of `benchmarks.soak`: no disturbance changes a result."""

import pytest

from benchmarks import soak


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.usefixtures("compiled_once")
@pytest.mark.timeout(600)
def test_disturbed_runs_end_as_if_nothing_had_been(tmp_path):
  short = soak.Soak(tmp_path, kinds=["kill", "full"], seed=17, most=3)
  short.run(0)
  assert short.counts.total() == 3
  assert not short.broken


def test_another_result_is_told(tmp_path, monkeypatch, capsys):
  results = iter([[b"round,loss\n1,0.5\n"], [b"round,loss\n1,0.6\n"]])
  monkeypatch.setattr(soak, "_results", lambda _: next(results))
  monkeypatch.setattr(soak, "Program", lambda *_: None)
  monkeypatch.setattr(soak, "_finished", lambda _: "finished")
  monkeypatch.setitem(soak._DISTURBANCES, "kill", lambda *_: "finished")
  disturbed = soak.Soak(tmp_path, kinds=["kill"], most=1)
  disturbed.run(0)
  assert disturbed.counts == {"kill: BROKEN": 1}
  assert "other results than those" in capsys.readouterr().out


def test_unknown_kinds_are_refused(capsys):
  with pytest.raises(SystemExit) as raised:
    soak.main(["--kinds=kill,earthquake"])
  assert raised.value.code == 2
  assert "found earthquake, expected some of signal" in capsys.readouterr().err
