"""Tests of tapes: their contents, and rules that are applied to them."""

import shutil
import signal

import numpy as np
import pandas as pd
import pytest

from tests.cases import one_of_each
from tests.experiments.training.small_run import (
  SMALL,
  before_round,
  interrupt,
  train,
)
from tests.refusals import rejected
from tff_fair import experiments, types
from tff_fair.experiments.analysis import replay
from tff_fair.experiments.runs import tape_files
from tff_fair.experiments.runs.folder import RunFolder

pytestmark = pytest.mark.usefixtures("compiled_here", "unpainted")

# Batches are whole, so that an update is the learning rate times a gradient.
TAPED = SMALL.replace(
  tape=True,
  total_rounds=12,
  rounds_per_evaluation=12,
  rounds_per_checkpoint=5,
  batch_size=10_000,
)
# Steps are so small that losses change in proportion to slopes.
WITH_UPDATES = TAPED.replace(
  tape="updates",
  tape_rounds=3,
  algorithm="fedfv",
  hparams={"tau": 2, "alpha": 0.3},
  total_rounds=4,
  server_learning_rate=1e-3,
  measure_improvement=True,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
  return train(TAPED, tmp_path_factory.mktemp("runs") / "taped")


@pytest.fixture(scope="module")
def with_updates(tmp_path_factory):
  return train(WITH_UPDATES, tmp_path_factory.mktemp("runs") / "updates")


def arrays(run):
  return dict(tape_files.read(RunFolder(run.path), 12, pytest.fail))


def contents(run):
  return {p.name: p.read_bytes() for p in (run.path / "tape").iterdir()}


def test_a_tape_has_the_rounds_of_the_tables(run):
  assert sorted(contents(run)) == [
    "rounds_000001-000010.npz",
    "rounds_000011-000020.npz",
  ]
  taped = arrays(run)
  assert list(taped) == list(range(1, 13))
  for round_num, of_round in taped.items():
    rows = run.cohorts[run.cohorts["round"] == round_num]
    assert of_round["client_id"].tolist() == rows["client_id"].tolist()
    for name, column in (("coefficients", "coefficient"), ("loss", "loss")):
      np.testing.assert_allclose(of_round[name], rows[column], rtol=1e-6)
    gram = of_round["gram"]
    np.testing.assert_allclose(
      of_round["slopes"], gram @ of_round["coefficients"], rtol=1e-12
    )
    np.testing.assert_array_equal(of_round["squared_norm"], np.diag(gram))
    assert (of_round["gradient_norm"] > 0).all()
    assert (of_round["initial_loss"] > 0).all()
  assert not [name for name in run.rounds if "tape" in name]


def test_an_interrupted_run_has_the_same_bytes(run, monkeypatch, tmp_path):
  path = tmp_path / "run"
  interrupt(TAPED, path, after=4)  # In the middle of a block of rounds.
  # As after a crash: the tape has two rounds more than were saved.
  with monkeypatch.context() as patched:
    before_round(patched, 12, lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
      train(TAPED, path)
  shutil.rmtree(path / "checkpoints" / "program_state_11")
  again = train(TAPED, path)
  assert contents(again) == contents(run)


@pytest.mark.parametrize("block", one_of_each(["damaged", "missing"]))
def test_a_run_goes_on_from_a_round_that_is_on_its_tape(run, tmp_path, block):
  path = tmp_path / "run"
  interrupt(TAPED, path, after=11)
  last = path / "tape" / "rounds_000011-000020.npz"
  if block == "missing":
    last.unlink()
  else:
    last.write_bytes(last.read_bytes()[:100])
  again = train(TAPED, path)
  assert contents(again) == contents(run)
  assert (path / "set_aside").exists()
  assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.long
def test_a_tape_keeps_as_many_rounds_as_it_is_told(with_updates):
  run = with_updates
  assert sorted(contents(run)) == [
    f"rounds_{number:06}-{number:06}.npz" for number in (1, 2, 3)
  ]
  assert set(experiments.replay(run, "fedavg")["round"]) == {1, 2, 3}
  for of_round in arrays_of(run, 3):
    updates = of_round["updates"].astype(float)
    # After the cohort's rows come rows of remembered clients.
    of_cohort = of_round["gram"][: len(updates), : len(updates)]
    np.testing.assert_allclose(of_cohort, updates @ updates.T, rtol=1e-6)


def arrays_of(run, last):
  return [a for _, a in tape_files.read(RunFolder(run.path), last, pytest.fail)]


def test_a_rule_on_its_own_tape_gives_its_coefficients(run, with_updates):
  for own in (run, with_updates):
    replayed = experiments.replay(own, own.algorithm)
    taped = arrays(own) if own is run else dict(enumerate(arrays_of(own, 3), 1))
    for round_num, rows in replayed.groupby("round"):
      of_round = taped[round_num]
      np.testing.assert_array_equal(
        rows["coefficient"], of_round["coefficients"][: len(rows)]
      )
      np.testing.assert_allclose(rows["slope"], of_round["slopes"], rtol=1e-9)
    assert replayed["angle"].max() < 1e-3


def test_the_rows_are_those_of_the_directions(with_updates):
  replayed = experiments.replay(with_updates, "term", {"t": 3.0})
  for (_, rows), of_round in zip(
    replayed.groupby("round"), arrays_of(with_updates, 3), strict=True
  ):
    updates = of_round["updates"].astype(float)
    weights = of_round["num_examples"] * np.exp(3.0 * of_round["loss"])
    c = weights / weights.sum()
    d, taken = c @ updates, of_round["direction"].astype(float)
    np.testing.assert_allclose(rows["coefficient"], c, rtol=1e-9)
    np.testing.assert_allclose(rows["slope"], updates @ d, rtol=1e-6)
    lengths = np.linalg.norm(updates, axis=1) * np.linalg.norm(d)
    np.testing.assert_allclose(rows["cosine"], updates @ d / lengths, rtol=1e-6)
    cosine = taken @ d / np.linalg.norm(taken) / np.linalg.norm(d)
    np.testing.assert_allclose(
      rows["angle"], np.degrees(np.arccos(cosine)), rtol=1e-4
    )
    conflicts = (updates @ updates.T < 0).sum(axis=1)
    assert rows["conflicts"].tolist() == conflicts.tolist()
    assert rows["harmed"].tolist() == (updates @ d < 0).tolist()


def test_small_steps_change_losses_as_foretold(with_updates):
  own = WITH_UPDATES.algorithm, WITH_UPDATES.hparams
  foretold = experiments.replay(with_updates, *own)["loss_change"]
  taped = with_updates.cohorts.query("round <= 3")
  measured = taped["loss_after"] - taped["loss_before"]
  np.testing.assert_allclose(measured, foretold, rtol=0.02, atol=2e-7)


def test_changes_are_foretold_of_plain_sgd_alone(run, monkeypatch):
  for client, server in ((0.9, 0.0), (0.0, 0.5), (0.0, 0.0)):
    momenta = {"client_momentum": client, "server_momentum": server}
    spec = TAPED.replace(algorithm="fedfa", hparams=momenta)
    monkeypatch.setitem(vars(run), "spec", spec)
    foretold = experiments.replay(run, "term")["loss_change"]
    assert foretold.notna().all() == (client + server == 0), momenta
  corrected = TAPED.replace(algorithm="fedavg", local_correction="scaffold")
  monkeypatch.setitem(vars(run), "spec", corrected)
  assert experiments.replay(run, "term")["loss_change"].isna().all()


def test_a_rule_of_your_own_is_applied(run):
  class Even(types.Rule):
    def coefficients(self, cohort, state):
      return types.RuleOutput(0.0 * cohort.weight + 0.25, state)

  assert (experiments.replay(run, Even())["coefficient"] == 0.25).all()
  with rejected("hparams"):
    experiments.replay(run, Even(), {"t": 1.0})


# Methods whose rules differ in their needs, and in whether they have a state.
KINDS = (
  *("fedavg", "qfedavg", "afl", "fedfa", "aaggff_s"),
  *("adafedadam", "fedmgda", "mgda_prox"),
)


def test_methods_are_applied_and_compared(run):
  replays = {
    name: experiments.replay(run, name).assign(rule=name) for name in KINDS
  }
  for name, rows in replays.items():
    assert rows["round"].nunique() == 12, name
    assert np.isfinite(rows["coefficient"]).all(), name
  chosen = [replays[name] for name in ("fedavg", "fedmgda", "afl")]
  compared = replay.compare_replays(pd.concat(chosen)).set_index("rule")
  assert (compared["rounds"] == 12).all()
  assert compared.loc["fedmgda", "harmed"] == 0
  assert compared.loc["fedavg", "angle"] < 1e-3
  worst = compared["worst_cosine"]
  assert worst["fedmgda"] > worst["fedavg"]
  within = compared["harmed"].between(
    compared["harmed_low"], compared["harmed_high"]
  )
  assert within[compared["harmed_low"].notna()].all()


@pytest.fixture
def copy(run, tmp_path):
  shutil.copytree(run.path, tmp_path / "copy")
  return tmp_path / "copy"


def test_a_damaged_or_missing_block_is_named_and_the_rest_is_read(copy):
  block = copy / "tape" / "rounds_000001-000010.npz"
  block.write_bytes(block.read_bytes()[:-50])
  told = []
  found = experiments.replay(copy, "fedavg", tell=told.append)
  assert found["round"].unique().tolist() == [11, 12]
  assert len(told) == 1
  assert str(block) in told[0]
  block.unlink()
  told.clear()
  found = experiments.replay(copy, "fedavg", tell=told.append)
  assert found["round"].unique().tolist() == [11, 12]
  assert "rounds 1 to 10" in told[0]
  # A rule with a state needs the missing rounds, too.
  with pytest.raises(experiments.RunError, match="round"):
    experiments.replay(copy, "aaggff_d", tell=told.append)


def test_what_cannot_be_replayed_is_refused(copy, with_updates):
  with pytest.raises(experiments.RunError, match="updates"):
    experiments.replay(copy, "fedfv", {"tau": 1})
  with rejected("gamma"):
    experiments.replay(copy, "fedfv", {"gamma": 1})
  with pytest.raises(experiments.FieldError):
    experiments.replay(copy, "fedf")
  # These methods need values that are measured between rounds.
  for method in ("drfa", "fairfed"):
    with rejected("algorithm", value=method):
      experiments.replay(copy, method)
  shutil.rmtree(copy / "tape")
  with pytest.raises(experiments.RunError, match="--tape"):
    experiments.replay(copy, "fedavg")
  # This tape belongs to another model.
  model = copy / "model.json"
  model.write_text(model.read_text() + " ")
  shutil.copytree(with_updates.path / "tape", copy / "tape")
  with pytest.raises(experiments.RunError, match="model"):
    experiments.replay(copy, "fedavg")
