"""Tests of the contract that every task fulfils."""

import functools
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import tasks
from tests.refusals import refused, rejected
from tests.tasks import task_files

_DATA_DIRS: dict[str, pathlib.Path] = {}


@pytest.fixture(scope="module", autouse=True)
def _files(tmp_path_factory):
  for name, write in task_files.WRITERS.items():
    _DATA_DIRS[name] = tmp_path_factory.mktemp(name)
    write(_DATA_DIRS[name])
  yield
  _load.cache_clear()


@functools.cache
def _load(name, **kwargs):
  """Returns a task, loaded once for equal arguments: a task never changes."""
  arguments = {
    "data_dir": _DATA_DIRS.get(name),
    **task_files.OPTIONS[name],
    **kwargs,
  }
  return tasks.load(name, **arguments)


def _element(dataset):
  (element,) = dataset.as_numpy_iterator()
  return element


def _weights(task):
  return [w.numpy() for w in task.model_fn().trainable_variables]


def test_every_task_is_tested():
  assert task_files.OPTIONS.keys() == {*tasks.names()}


@pytest.mark.parametrize("name", tasks.names())
class TestEveryTask:
  def test_describes_itself(self, name):
    task = _load(name)
    assert task.name == name
    assert "\n" not in task.description
    for count in (
      task.num_clients,
      task.train.num_examples.sum(),
      task.test.num_examples.sum(),
    ):
      assert f"{count:,}" in task.description
    assert len(set(task.client_names)) == task.num_clients > 0
    for split in (task.train, task.test):
      assert split.num_examples.shape == (task.num_clients,)
      assert split.num_examples.dtype == np.int64

  @pytest.mark.parametrize("half", ["train", "test"])
  def test_a_client_is_one_element_with_all_its_examples(self, name, half):
    task = _load(name)
    split = getattr(task, half)
    for client_id in range(task.num_clients):
      if client_id < 3:
        dataset = getattr(task, f"{half}_data")(client_id)
        assert dataset.element_spec == task.element_spec
        x, y = _element(dataset)
      else:  # Faster, as in a run.
        x, y = split.load(client_id)
      assert len(x) == len(y) == split.num_examples[client_id] > 0
      assert np.isfinite(x).all()
      assert y.min() >= 0
      assert y.max() < task.num_classes

  def test_model_takes_the_data(self, name):
    task = _load(name)
    model = task.model_fn()
    assert model.input_spec == task.element_spec
    batch = _element(task.train_data(0))
    output = model.forward_pass(batch, training=False)
    assert len(output.predictions) == len(batch[1])
    assert output.predictions.shape[-1] == task.num_classes
    assert output.num_examples == len(batch[1])
    assert np.isfinite(output.loss)
    metrics = model.report_local_unfinalized_metrics()
    (accuracy,) = (value for key, value in metrics.items() if "accuracy" in key)
    assert accuracy
    if len(task.element_spec[1].shape) == 1:  # Labels are class numbers.
      log_p = tf.nn.log_softmax(output.predictions).numpy()
      expected = -log_p[np.arange(len(batch[1])), batch[1]].mean()
      np.testing.assert_allclose(output.loss, expected, rtol=1e-5)

  def test_models_are_new_each_time_with_the_same_weights(self, name):
    task = _load(name, seed=3)
    first, wrapped = task.model_fn(), task.model_fn()
    plain = task.keras_model_fn()
    assert isinstance(plain, tf.keras.Model)
    assert plain is not task.keras_model_fn()
    before = [w.numpy() for w in wrapped.trainable_variables]
    for variable in first.trainable_variables:
      variable.assign(tf.ones_like(variable))
    for variable, value in zip(
      wrapped.trainable_variables, before, strict=True
    ):
      np.testing.assert_array_equal(variable, value)
    for half in ("trainable_variables", "non_trainable_variables"):
      for variable, twin in zip(
        getattr(plain, half), getattr(wrapped, half), strict=True
      ):
        assert variable is not twin
        np.testing.assert_array_equal(variable, twin)

  def test_seed_decides_weights(self, name):
    weights = _weights(_load(name, seed=3))
    again = _weights(_load(name, seed=4, model_seed=3))
    np.testing.assert_equal(weights, again)
    other = _weights(_load(name, seed=3, model_seed=4))
    assert not np.array_equal(weights[0], other[0])

  def test_seed_decides_clients(self, name):
    first, second = _load(name, seed=3), _load(name, seed=3, model_seed=4)
    assert first.client_names == second.client_names
    for client_id in range(first.num_clients):
      np.testing.assert_equal(
        first.train.load(client_id), second.train.load(client_id)
      )

  def test_class_labels_may_be_noisy(self, name):
    declares = "label_noise" in tasks.option_names(name)
    assert declares == _load(name).has_class_labels
    if declares:
      noisy = {"label_noise": "pairwise", "noisy_clients": 1.0}
      task = _load(name, least_label_noise=1.0, **noisy)
      truth = _load(name).train.load(0)[1]
      found = task.train.load(0)[1]
      np.testing.assert_array_equal(found, (truth + 1) % task.num_classes)

  def test_rejects_client_ids_out_of_range(self, name):
    task = _load(name)
    for client_id in (-1, task.num_clients):
      for data in (task.train_data, task.test_data):
        with pytest.raises(
          ValueError, match=f"{client_id}.* {task.num_clients - 1}"
        ):
          data(client_id)

  def test_rejects_seed(self, name):
    for seed in (-1, 0.5, "0", None):
      with pytest.raises(ValueError, match=repr(seed)):
        _load(name, seed=seed)

  def test_rejects_data_dir_that_cannot_be_read(self, name, tmp_path):
    file = tmp_path / "file"
    file.touch()
    for data_dir, place, fact in [
      (tmp_path / "absent", tmp_path / "absent", "No such file"),
      (str(file), file, "Not a directory"),
      ("~nosuchuser/x", "~nosuchuser/x", "No such file"),
      ("", "data_dir", "empty"),
    ]:
      with refused(place, fact):
        _load(name, data_dir=data_dir)
    assert list(tmp_path.iterdir()) == [file]


# Tests of tasks whose data determine the clients.
@pytest.mark.parametrize(
  "name",
  [
    *("emnist_character", "shakespeare_character", "stackoverflow_tag"),
    *("stackoverflow_word", "sent140", "leaf", "table", "arrays"),
    "client_data",
  ],
)
def test_seed_chooses_clients(name):
  whole = _load(name)
  names = [*whole.client_names]
  number = len(names) - 1
  several = [_load(name, num_clients=number, seed=k) for k in range(3)]
  found = [[*task.client_names] for task in several]
  again = _load(name, num_clients=number, seed=0, model_seed=1)
  assert [*again.client_names] == found[0]
  assert any(chosen != found[0] for chosen in found)
  for task, chosen in zip(several, found, strict=True):
    assert chosen == [k for k in names if k in chosen]
    assert len(chosen) == number
    for client_id, client in enumerate(chosen):
      y, expected = (
        np.concatenate([of.train.load(k)[1], of.test.load(k)[1]])
        for of, k in [(task, client_id), (whole, names.index(client))]
      )
      np.testing.assert_array_equal(np.sort(y, 0), np.sort(expected, 0))
  for wrong, fact in [(number + 2, f"at most {number + 1}"), (0, "expected")]:
    with rejected("num_clients", fact, value=wrong):
      _load(name, num_clients=wrong)


@pytest.mark.parametrize(
  "function",
  [
    tasks.load,
    tasks.option_names,
    tasks.option_defaults,
    tasks.option_fields,
    lambda name: tasks.check_options(name, {}),
    lambda name: tasks.parse_options(name, []),
  ],
)
def test_rejects_unknown_task(function):
  valid = ", ".join(tasks.names())
  with rejected("task", valid, value="heart"):
    function("heart")


@pytest.mark.parametrize(
  ("file", "options"),
  [
    ("hosp.csv", "--task=table --task_option=file=hosp.csv"),
    ("data/hosp.csv.gz", "--task=table --task_option=file=data/hosp.csv.gz"),
    ("data/hosp.tsv.xz", "--task=table --task_option=file=data/hosp.tsv.xz"),
    ("hosp.Parquet", "--task=table --task_option=file=hosp.Parquet"),
    ("hosp.npz", "--task=arrays --task_option=file=hosp.npz"),
  ],
)
def test_a_file_names_the_task_that_reads_it(file, options):
  with rejected("task", options, value=file):
    tasks.check_name(file)
