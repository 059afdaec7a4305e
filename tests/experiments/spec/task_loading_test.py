import pytest

import tasks
from tff_fair.experiments import RunSpec
from tff_fair.experiments.spec import task_loading

pytestmark = pytest.mark.pure

SMALL = RunSpec(
  task_options={"num_clients": 6, "model": "logistic_regression"},
  algorithm="fedavg",
)


def test_data_and_weights_have_their_own_seeds():
  first = task_loading.load(SMALL)
  data = task_loading.load(SMALL.replace(data_seed=1))
  model = task_loading.load(SMALL.replace(model_seed=1))
  draws = SMALL.replace(seed=1, data_seed=0, model_seed=0)

  def parts(task):
    weights, *_ = task.keras_model_fn().get_weights()
    return task.train.load(0)[0].tobytes(), weights.tobytes()

  examples, weights = parts(first)
  assert parts(task_loading.load(draws)) == (examples, weights)
  assert parts(data)[0] != examples
  assert parts(data)[1] == weights
  assert parts(model)[0] == examples
  assert parts(model)[1] != weights
  chosen = SMALL.replace(task_options={"num_clients": 6}, model="mlp_128")
  assert (
    parts(task_loading.load(chosen.replace(seed=3, model_seed=0)))[1]
    == parts(task_loading.load(chosen))[1]
  )


def test_a_task_that_is_loaded_ahead_is_for_the_next_run_alone(monkeypatch):
  loaded = []

  def load(name, **options):
    loaded.append(name)
    return tasks_load(name, **options)

  tasks_load = tasks.load
  monkeypatch.setattr(tasks, "load", load)
  task_loading.preload(SMALL)
  first = task_loading.load(SMALL)
  assert len(loaded) == 1
  assert task_loading.load(SMALL) is not first
  task_loading.preload(SMALL)
  assert task_loading.load(SMALL.replace(seed=1)).num_clients == 6
  assert len(loaded) == 4
