"""Runs the files of examples/ that a flag can name."""

import json
import shutil

import numpy as np
import pytest

import tasks
from tasks import label_noise
from tests import source_tree
from tff_fair import experiments
from tff_fair.experiments import RunError, RunSpec, open_run, run
from tff_fair.experiments.errors import FolderTakenError

pytestmark = pytest.mark.usefixtures("unpainted")

FOLDER = source_tree.ROOT / "examples"
TASK = f"{FOLDER / 'own_task.py'}:hospitals"
MODEL = f"{FOLDER / 'own_model.py'}:build"
METHOD = f"{FOLDER / 'my_method.py'}:MaxFl"


def test_the_task_has_its_options():
  noise = label_noise.Options().to_dict()
  own = {"patients": 400, "shift": 1.5}
  assert tasks.option_defaults(TASK) == {**own, **noise}
  assert tasks.option_fields(TASK)["shift"].meaning.startswith("How much")


def test_the_model_fits_other_tasks():
  digits = tasks.with_model(tasks.load("digits"), MODEL, seed=0)
  assert digits.keras_model_fn().output_shape == (None, 10)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
  """Returns a run of a task, a model and a method of the user's own."""
  spec = RunSpec(
    task=TASK,
    model=MODEL,
    task_options={"patients": 100},
    algorithm=METHOD,
    hparams={"sharpness": 2.0},
    clients_per_round=3,
    total_rounds=1,
    tape=True,
  )
  found = run(spec, tmp_path_factory.mktemp("own") / "run", progress=False)
  assert found.spec == spec
  return found


@pytest.fixture
def copied(finished, tmp_path):
  return open_run(shutil.copytree(finished.path, tmp_path / "run"))


def test_a_run_knows_its_clients_method_and_files(finished):
  assert finished.client_names.tolist() == ["A", "B", "C"]
  assert finished.title == "MaxFl"
  assert finished.settings["model_file"]
  assert finished.settings["algorithm_file"]


def test_a_run_goes_on_with_the_same_files_alone(copied):
  config = copied.path / "config.json"
  before = config.read_bytes()
  change_digest(copied, "model")
  with pytest.raises(FolderTakenError, match=":build"):
    run(copied.spec.replace(total_rounds=2), copied.path, progress=False)
  config.write_bytes(before)
  change_digest(copied, "algorithm")
  with pytest.raises(RunError, match="another version"):
    experiments.replay(open_run(copied.path), METHOD)


def change_digest(found, kind):
  config = found.path / "config.json"
  digest = found.config["own_files"][kind]
  config.write_text(config.read_text().replace(digest, "0" * len(digest)))


def test_the_folder_has_the_model(copied):
  weights = copied.model().get_weights()
  assert weights[0].shape == (5, 32)
  change_digest(copied, "model")
  again = open_run(copied.path).model().get_weights()
  np.testing.assert_array_equal(again[0], weights[0])
  # Without the saved model, the user's file is needed, but it has changed.
  description = copied.path / "model.json"
  content = {**json.loads(description.read_text()), "trained": None}
  description.write_text(json.dumps(content))
  with pytest.raises(RunError, match=":build"):
    open_run(copied.path).model()


def test_a_method_is_replayed_compared_and_reported(finished, tmp_path):
  cohorts = finished.cohorts
  q = 1 / np.cosh(cohorts["loss"].to_numpy()) ** 2  # With a sharpness of 2.
  np.testing.assert_allclose(cohorts["coefficient"], q / q.sum(), rtol=1e-4)
  again = experiments.replay(finished, METHOD)
  np.testing.assert_allclose(
    np.sort(again["coefficient"]),
    np.sort(cohorts["coefficient"]),
    rtol=1e-6,
  )
  assert "MaxFl" in str(experiments.compare(finished))
  experiments.report(finished, tmp_path / "page.html")
  assert "MaxFl" in (tmp_path / "page.html").read_text()
