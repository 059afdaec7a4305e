"""Runs the files of examples/ that a command line names."""

import json

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
  assert tasks.option_meanings(TASK)["shift"].startswith("How much larger")


def test_the_model_fits_other_tasks():
  digits = tasks.with_model(tasks.load("digits"), MODEL, seed=0)
  assert digits.keras_model_fn().output_shape == (None, 10)


def test_a_run_with_both_trains_goes_on_and_gives_its_model(tmp_path):
  spec = RunSpec(
    task=TASK,
    model=MODEL,
    task_options={"patients": 100},
    algorithm="fedavg",
    clients_per_round=3,
    total_rounds=2,
  )
  finished = run(spec, tmp_path / "run", progress=False)
  assert finished.client_names.tolist() == ["A", "B", "C"]
  assert finished.spec == spec
  assert finished.settings["model_file"]
  weights = finished.model().get_weights()
  assert weights[0].shape == (5, 32)
  (tmp_path / "run" / "summary.json").unlink()  # As if interrupted.
  config = finished.path / "config.json"
  text = config.read_text()
  digest = finished.config["own_files"]["model"]
  config.write_text(text.replace(digest, "0" * len(digest)))
  with pytest.raises(FolderTakenError, match=":build"):
    run(spec, finished.path, progress=False)
  # The folder has the model. One with layers of the user's own needs the file.
  again = open_run(finished.path).model().get_weights()
  np.testing.assert_array_equal(again[0], weights[0])
  description = finished.path / "model.json"
  content = {**json.loads(description.read_text()), "trained": None}
  description.write_text(json.dumps(content))
  with pytest.raises(RunError, match=":build"):
    open_run(finished.path).model()


def test_a_method_trains_and_is_compared_replayed_and_reported(tmp_path):
  spec = RunSpec(
    task=TASK,
    task_options={"patients": 100},
    algorithm=METHOD,
    hparams={"sharpness": 2.0},
    clients_per_round=3,
    total_rounds=1,
    tape=True,
  )
  finished = run(spec, tmp_path / "mine", progress=False)
  assert finished.spec == spec
  assert finished.title == "MaxFl"
  assert finished.settings["algorithm_file"]
  cohorts = finished.cohorts
  assert cohorts is not None
  q = 1 / np.cosh(cohorts["loss"].to_numpy()) ** 2  # With a sharpness of 2.
  np.testing.assert_allclose(cohorts["coefficient"], q / q.sum(), rtol=1e-4)
  again = experiments.replay(finished, METHOD)
  np.testing.assert_allclose(
    np.sort(again["coefficient"]),
    np.sort(cohorts["coefficient"]),
    rtol=1e-6,
  )
  assert "MaxFl" in str(experiments.compare(tmp_path))
  experiments.report(tmp_path, tmp_path / "page.html")
  assert "MaxFl" in (tmp_path / "page.html").read_text()
  config = finished.path / "config.json"
  digest = finished.config["own_files"]["algorithm"]
  config.write_text(config.read_text().replace(digest, "0" * len(digest)))
  with pytest.raises(FolderTakenError, match=":MaxFl"):
    run(spec.replace(total_rounds=2), finished.path, progress=False)
  with pytest.raises(RunError, match="another version"):
    experiments.replay(open_run(finished.path), METHOD)
