"""All readers accept or refuse damaged run folders and damaged models."""

import random
import shutil

import hypothesis
import hypothesis.strategies as st
import pytest
import tensorflow as tf

import tasks
from tests import fuzz
from tests.fuzz import damage
from tff_fair import experiments
from tff_fair.experiments.analysis.compare import compare
from tff_fair.experiments.presenting.report.page import report
from tff_fair.experiments.runs import discovery, folder as run_folder
from tff_fair.experiments.sweeps import runner

pytestmark = pytest.mark.usefixtures("compiled_once", "unpainted")

# The empty suffix is the folder of a SavedModel. There is no .h5: the HDF5
# library may read a damaged file for ever, which this project cannot stop.
_SUFFIXES = (".keras", "")
_SEEDS = st.integers(0, 2**32)


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
  spec = experiments.RunSpec(
    algorithm="fedavg",
    total_rounds=2,
    rounds_per_evaluation=1,
    task_options={"num_clients": 6, "model": "logistic_regression"},
  )
  folder = tmp_path_factory.mktemp("sample") / "run"
  return experiments.run(spec, folder, progress=False)


@pytest.fixture(scope="module")
def models(sample):
  folder = sample.path.parent
  for suffix in _SUFFIXES:
    sample.model().save(folder / f"model{suffix}")
  return {suffix: folder / f"model{suffix}" for suffix in _SUFFIXES}


@fuzz.fuzzed(few=24)
@hypothesis.given(seed=_SEEDS)
def test_a_damaged_run_is_read_or_refused_in_lines(
  sample, tmp_path_factory, seed
):
  errors = _errors(sample.path, tmp_path_factory.mktemp("run"), seed)
  for error in errors or [None]:
    fuzz.ended("runs", error)


def _errors(sample, folder, seed):
  """Damages a copy of a run, and returns the refusals of its readers."""
  copied = shutil.copytree(sample, folder / "run")
  hypothesis.note(damage.of_run(copied, random.Random(seed)))
  whole = discovery.open_run(sample)

  def values_of_run():
    run = discovery.open_run(copied)
    run.client_names.to_dict()
    run.differences(run.spec)

  def resume():
    taken = run_folder.RunFolder(copied)
    with run_folder.take_folder([taken.path], whole.config):
      pass

  def show():
    runs = discovery.find_intact(copied).runs
    compare(runs, columns=["mean", "loss"], unfinished=True)
    compare(runs, round="best", criterion="worst_10", unfinished=True)
    report(runs, folder / "page.html", unfinished=True)

  errors = []
  readers = values_of_run, resume, lambda: runner.state_of(whole.spec, copied)
  for reader in (*readers, show):
    try:
      reader()
    except (experiments.FieldError, experiments.RunError) as error:
      errors.append(error)
  assert all(str(folder) in str(error) for error in errors)
  shutil.rmtree(folder)
  return errors


@fuzz.fuzzed(few=3)
@hypothesis.given(seed=_SEEDS)
def test_a_damaged_run_is_exported_or_refused_in_a_line(
  sample, tmp_path_factory, seed
):
  run = shutil.copytree(sample.path, tmp_path_factory.mktemp("export") / "run")
  hypothesis.note(damage.of_run(run, random.Random(seed)))
  _ends("export", lambda: experiments.export(run, run / "model.keras"))


@fuzz.fuzzed(few=4)
@hypothesis.given(seed=_SEEDS, suffix=st.sampled_from(_SUFFIXES))
def test_a_damaged_model_is_audited_or_refused_in_a_line(
  models, tmp_path_factory, seed, suffix
):
  whole, rng = models[suffix], random.Random(seed)
  path = tmp_path_factory.mktemp("model") / whole.name
  if whole.is_dir():
    shutil.copytree(whole, path)
  else:
    shutil.copyfile(whole, path)
  files = [p for p in (path, *path.rglob("*")) if p.is_file()]
  file = rng.choice(sorted(files))
  change = damage.damaged
  if file.suffix == ".keras" and rng.random() < 0.5:
    change = damage.damaged_inside
  file.write_bytes(change(file.read_bytes(), rng))
  task = tasks.load("digits")
  _ends(f"audit {suffix}", lambda: experiments.audit(path, task))


def _ends(group, read_model):
  try:
    read_model()
    fuzz.ended(group, None)
  except (
    experiments.RunError,
    experiments.FieldError,
    tasks.DataError,
  ) as error:
    fuzz.ended(group, error)
  finally:
    tf.keras.backend.clear_session()
