"""Tests of callbacks that are passed to `experiments.run`."""

import shutil

import numpy as np
import pytest

from tests.experiments.training.small_run import (
  SMALL,
  check_same,
  tables,
  train,
)
from tests.refusals import rejected
from tff_fair import experiments
from tff_fair.experiments import RoundCallback
from tff_fair.experiments.runs import checkpoints

pytestmark = pytest.mark.usefixtures("compiled_once", "unpainted")

SPEC = SMALL.replace(total_rounds=5, rounds_per_checkpoint=2)


class Log(RoundCallback):
  """Records its calls."""

  def __init__(self):
    self.told = []

  def on_start(self, run):
    self.told.append(("start", len(run.rounds), run.spec == SPEC))

  def on_round(self, state):
    assert state.evaluation is None
    self.told.append(("round", state.round_num))

  def on_evaluation(self, state):
    self.told.append(("evaluation", state.round_num))
    self.last = state

  def on_end(self, error):
    self.told.append(("end", error))


class Mean(RoundCallback):
  """Keeps a running mean of the model, and the losses of clients."""

  def __init__(self, copy_at=None, to=None):
    self.mean, self.losses = np.zeros(1), {"of_rounds": []}
    self._copy = copy_at, to

  def on_start(self, run):
    self._path = run.path

  def on_round(self, state):
    weights = np.concatenate([w.ravel() for w in state.model_weights.trainable])
    self.mean = 0.9 * self.mean + 0.1 * weights
    self.losses["of_rounds"].append(float(np.mean(state.clients["loss"])))
    if self._copy[0] == state.round_num:
      # The files that a program killed at this moment would leave.
      shutil.copytree(self._path, self._copy[1])

  def state(self):
    return {"mean": self.mean, "losses": self.losses, "none": None}

  def restore(self, state):
    assert set(state) == {"mean", "losses", "none"}
    self.mean, self.losses = state["mean"], state["losses"]


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
  """Returns a run and its two callbacks.

  A copy beside the run is in the state that a kill would leave.
  """
  path = tmp_path_factory.mktemp("runs")
  log, mean = Log(), Mean(4, path / "killed")
  run = train(SPEC, path / "run", callbacks=[log, mean])
  return run, log, mean


def test_callbacks_follow_a_run_and_change_nothing(followed, tmp_path):
  run, log, mean = followed
  rounds = [
    *[("round", 1), ("round", 2), ("evaluation", 2), ("round", 3)],
    *[("round", 4), ("evaluation", 4), ("round", 5), ("evaluation", 5)],
  ]
  assert log.told == [
    *[("start", 0, True), ("evaluation", 0)],
    *rounds,
    ("end", None),
  ]
  check_same(log.last.model_weights.trainable, run.weights())
  score = log.last.evaluation.statistics["mean"]
  assert score == run.summary["test_accuracy"]["mean"]
  assert mean.losses["of_rounds"] == pytest.approx(
    run.rounds["aggregator/loss_mean"].tolist(), rel=1e-6
  )
  assert tables(train(SPEC, tmp_path / "run")) == tables(run)


def test_a_killed_run_goes_on_with_the_states_of_callbacks(followed, tmp_path):
  run, _, whole = followed
  path = tmp_path / "run"
  shutil.copytree(run.path.parent / "killed", path)
  with pytest.raises(experiments.RunError, match=r"Mean.*pass it"):
    train(SPEC, path)
  log, mean = Log(), Mean()
  resumed = train(SPEC, path, callbacks=[mean, log])
  assert log.told[:2] == [("start", 2, True), ("round", 3)]
  assert tables(resumed) == tables(run)
  assert mean.losses == whole.losses
  check_same([mean.mean, *resumed.weights()], [whole.mean, *run.weights()])
  name = "checkpoints/program_state_5/callbacks.npz"
  assert (path / name).read_bytes() == (run.path / name).read_bytes()


class After(RoundCallback):
  """Calls a function after a round."""

  def __init__(self, number, act):
    self._number, self._act = number, act

  def on_round(self, state):
    return self._act() if state.round_num == self._number else None


def test_a_callback_stops_a_run_once_and_for_all(tmp_path, capfd):
  path = tmp_path / "run"
  stop = After(3, lambda: "stop")
  run = experiments.run(SPEC, path, callbacks=[stop])
  assert "the callback After" in capfd.readouterr().err
  for is_again in (False, True):
    if is_again:
      # As after a crash: the last round is saved, but there is no summary.
      (path / "summary.json").unlink()
      run = train(SPEC, path)
    assert run.summary is not None
    assert run.summary["rounds"] == 3
    assert run.evaluations["round"].tolist() == [0, 2, 3]
  longer = train(SPEC.replace(total_rounds=6), path)
  assert longer.summary == run.summary


def fail():
  raise KeyError("a name\nof mine")


class Unsaved(RoundCallback):
  def state(self):
    return {"pair": (1, 2)}


@pytest.mark.parametrize(
  ("callback", "facts", "saved"),
  [
    (After(4, fail), ["After", "on_round of round 4", "KeyError"], 3),
    (After(4, lambda: True), ["After", "True", "'stop'"], 3),
    (Unsaved(), ["Unsaved", "'pair'", "tuple"], 0),
  ],
)
def test_a_callback_that_fails_is_named_in_a_line(
  tmp_path, callback, facts, saved
):
  path = tmp_path / "run"
  log = Log()
  with pytest.raises(experiments.RunError) as raised:
    train(SPEC, path, callbacks=[log, callback])
  text = str(raised.value)
  assert all(fact in text for fact in facts), text
  assert "\n" not in text
  assert len(text) - len(str(path)) * 2 <= 300
  assert log.told[-1][1] is not None
  if saved:
    assert f"{saved} of 5 rounds are saved" in text
    assert checkpoints.saved_rounds(path / "checkpoints")[-1] == saved
  else:
    assert not path.exists()


@pytest.mark.parametrize(
  ("callbacks", "fact"),
  [
    *(([callback], "RoundCallback") for callback in (Log, print, "log")),
    ([Log()] * 2, "Log"),
  ],
)
def test_what_is_not_a_callback_is_refused(tmp_path, callbacks, fact):
  with rejected("callbacks", fact):
    train(SPEC, tmp_path / "run", callbacks=callbacks)
  assert not (tmp_path / "run").exists()


def test_callbacks_of_one_class_have_states_of_their_own(tmp_path):
  spec = SPEC.replace(total_rounds=1)
  path = tmp_path / "run"
  train(spec, path, callbacks=[Mean(), Mean()])
  state = path / "checkpoints/program_state_1/callbacks.npz"
  with np.load(state) as found:
    assert set(found) == {"values", "Mean/mean", "Mean-2/mean"}
