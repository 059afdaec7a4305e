import pytest

from tests.experiments import run_folders
from tff_fair.experiments import errors
from tff_fair.experiments.runs import discovery as runs


def found(path):
  return runs.find([path])


def test_runs_are_found_at_any_depth_in_natural_order(tmp_path):
  for name in ("b/seed=10", "b/seed=2", "a"):
    run_folders.make(tmp_path / name)
  run_folders.make(tmp_path / "a/checkpoints/not_a_run_of_its_own")
  (tmp_path / "notes").mkdir()
  (tmp_path / "c").mkdir()
  # A run that is about to begin.
  (tmp_path / "c" / "config.json").touch()
  assert [str(run.path.relative_to(tmp_path)) for run in found(tmp_path)] == [
    "a",
    "b/seed=2",
    "b/seed=10",
  ]


def test_runs_of_a_sweep_are_in_its_order(tmp_path):
  for name in "abcd":
    run_folders.make(tmp_path / name)
  (tmp_path / "sweep.json").write_text('{"names": {"c": "x", "b": "y"}}')
  assert [run.path.name for run in found(tmp_path)] == ["c", "b", "a", "d"]


def test_a_run_that_is_named_twice_is_found_once(tmp_path):
  path = run_folders.make(tmp_path / "a")
  (tmp_path / "link").symlink_to(path)
  assert len(runs.find([tmp_path, path, tmp_path / "link", str(path)])) == 1


def test_what_is_there_is_read(tmp_path):
  path = run_folders.make(tmp_path / "a", seed=3, algorithm="term")
  (run,) = found(path)
  assert (run.algorithm, run.task, run.seed) == ("term", "digits", 3)
  assert run.is_finished
  assert run.summary == {"rounds": 2, "num_clients": 2}
  assert run.evaluations["accuracy/mean"].tolist() == pytest.approx([0.3, 0.7])
  assert run.client_evaluations["accuracy"].tolist() == [0.2, 0.4, 0.5, 0.9]
  assert run.costs is run.cohorts is run.labels is run.clients is None
  (path / "labels.csv").write_text("client_id,0,1\n0,5,6\n")
  (run,) = found(path)
  assert run.labels.to_numpy().tolist() == [[0, 5, 6]]


def test_of_an_unfinished_run_whole_rounds_are_read(tmp_path):
  path = run_folders.make(tmp_path / "a", is_finished=False)
  with (path / "client_evaluations.csv").open("a") as file:
    file.write("3,0,10,0.1,0.9\n3,1,10,0.")
  (run,) = found(path)
  assert not run.is_finished
  assert run.summary is None
  assert run.client_evaluations["round"].tolist() == [1, 1, 2, 2]
  assert len(run.rounds) == 0


def test_a_run_without_a_round_has_empty_tables(tmp_path):
  path = run_folders.make(tmp_path / "a", is_finished=False)
  (path / "evaluations.csv").unlink()
  (path / "client_evaluations.csv").write_text("")
  (run,) = found(path)
  assert len(run.evaluations["accuracy/mean"]) == 0
  assert len(run.client_evaluations["client_id"]) == 0


def test_names_of_clients_are_texts(tmp_path):
  path = run_folders.make(tmp_path / "a")
  (path / "clients.csv").write_text("client_id,client\n0,007\n1,NA\n")
  assert found(path)[0].clients["client"].tolist() == ["007", "NA"]


def test_a_finished_run_has_its_tables(tmp_path):
  path = run_folders.make(tmp_path / "a")
  (path / "evaluations.csv").unlink()
  with pytest.raises(errors.RunError, match=r"evaluations\.csv"):
    _ = found(path)[0].evaluations


def test_what_is_not_there_is_said(tmp_path):
  with pytest.raises(errors.RunError, match="nowhere"):
    runs.find([tmp_path / "nowhere"])
  with pytest.raises(errors.RunError, match="nowhere: there is no such folder"):
    runs.open_run(tmp_path / "nowhere")
  (tmp_path / "file").touch()
  with pytest.raises(errors.RunError, match="file: is not a folder"):
    runs.open_run(tmp_path / "file")
  (tmp_path / "file").unlink()
  with pytest.raises(errors.RunError, match="no run"):
    runs.find([tmp_path])
  assert runs.find([]) == []


def test_a_method_is_called_as_its_sweep_calls_it(tmp_path, monkeypatch):
  run_folders.make(tmp_path / "a")
  run_folders.make(tmp_path / "b", algorithm="term")
  names = tmp_path / "sweep.json"
  names.write_text('{"names": {"a": "Mean"}}')
  assert [run.name for run in found(tmp_path)] == ["Mean", "term"]
  monkeypatch.chdir(tmp_path / "a")
  assert found(".")[0].name == "Mean"
  names.write_text('{"names": {"a": "Mean\\n of  all "}}')
  assert found(tmp_path / "a")[0].name == "Mean of all"
  names.write_text('{"names": []}')
  with pytest.raises(errors.RunError, match=r"sweep\.json"):
    found(tmp_path)


def test_settings_are_what_decides_the_result(tmp_path):
  run_folders.make(
    tmp_path / "a",
    algorithm="qfedavg",
    seed=5,
    hparams={"q": 2.0},
    task_options={"model": "logistic_regression"},
  )
  (run,) = found(tmp_path)
  assert (
    run.settings.items()
    >= {
      "task": "digits",
      "algorithm": "qfedavg",
      "client_learning_rate": 0.1,
      "total_rounds": 2,
      "task_option.model": "logistic_regression",
      "hparam.q": 2.0,
      "sampling": "uniform",
    }.items()
  )
  others = ("seed", "hparam", "hparam.lipschitz", "data_dir")
  assert not run.settings.keys() & set(others)
