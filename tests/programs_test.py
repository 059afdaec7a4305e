"""Tests of clients in programs of `tff.learning.programs`."""

import asyncio
import copy
import datetime
import types
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import small_problem
from tff_fair import client_dataset, programs, runtime

pytestmark = pytest.mark.tff

IDS = small_problem.CLIENT_IDS


@pytest.fixture
def in_program():
  runtime.use_local(program=True)
  yield
  runtime.use_local()


def source(seed=0):
  return programs.ClientDataSource(small_problem.cohort(IDS), seed)


def ids_of(cohort):
  return [int(next(iter(dataset))[0]) for dataset in cohort]


@pytest.fixture(scope="module")
def process():
  # The state of this process grows from round to round.
  return small_problem.process("fedfv", hparams={"tau": 1})


def train(process, folder, rounds, should_discard=None):
  """Runs TFF's program; returns the last weights, and client ids by round."""
  models = tff.program.MemoryReleaseManager()
  metrics = tff.program.MemoryReleaseManager()
  asyncio.run(
    tff.learning.programs.train_model(
      train_process=process,
      train_data_source=source(),
      train_per_round_clients=3,
      train_total_rounds=rounds,
      should_discard_round=should_discard,
      program_state_manager=tff.program.FileProgramStateManager(folder),
      model_output_manager=models,
      train_metrics_manager=metrics,
      evaluation_manager=None,
      evaluation_periodicity=1,
    )
  )
  (state,) = models.values().values()
  cohorts = {
    key: [*value["aggregator"]["client_ids"]]
    for key, value in metrics.values().items()
  }
  return small_problem.flat_weights(state), cohorts


@pytest.mark.usefixtures("in_program")
def test_a_program_that_resumes_is_one_that_was_not_interrupted(
  tmp_path, process
):
  wanted, cohorts = train(process, tmp_path / "whole", 3)
  assert [*cohorts] == [1, 2, 3]
  train(process, tmp_path / "resumed", 1)
  found, later = train(process, tmp_path / "resumed", 3)
  np.testing.assert_array_equal(found, wanted)
  assert later == {key: cohorts[key] for key in (2, 3)}


@pytest.mark.usefixtures("in_program")
def test_a_round_that_is_discarded_has_other_clients(tmp_path, process):
  seen = []

  def is_first(output):
    seen.append([*output.metrics["aggregator"]["client_ids"]])
    return len(seen) == 1

  _, cohorts = train(process, tmp_path, 1, is_first)
  assert cohorts == {1: seen[1]}
  assert seen[0] != seen[1]


def test_cohorts_depend_on_seed_and_round_alone():
  first, second = source().iterator(), source().iterator()
  cohorts = [ids_of(first.select(3)) for _ in range(4)]
  assert [ids_of(second.select(3)) for _ in range(4)] == cohorts
  assert len({tuple(c) for c in cohorts}) > 1
  assert all(len({*c}) == 3 for c in cohorts)
  others = source(seed=1).iterator()
  assert [ids_of(others.select(3)) for _ in range(4)] != cohorts


def test_an_iterator_goes_on_from_its_bytes_and_copies():
  of = source()
  iterator = of.iterator()
  iterator.select(2)
  saved = type(of.iterator()).from_bytes(iterator.to_bytes())
  copied = copy.deepcopy(iterator)
  assert saved.to_bytes() == copied.to_bytes() == iterator.to_bytes() == b"1"
  assert ids_of(saved.select(3)) == ids_of(copied.select(3))


def test_without_a_number_all_clients_are_drawn():
  iterator = source().iterator()
  assert sorted(ids_of(iterator.select())) == sorted(IDS)
  assert iterator.federated_type == source().federated_type
  # A client's only element has all its examples; their number varies.
  assert "float32[?,5]" in str(source().federated_type)


@pytest.mark.parametrize("k", [0, len(IDS) + 1])
def test_more_clients_than_there_are_are_refused(k):
  with pytest.raises(ValueError, match=f"found.* {k}|k={k}|found {k}"):
    source().iterator().select(k)


@pytest.mark.parametrize(
  ("datasets", "error", "named"),
  [
    ([], ValueError, "none"),
    ([[1]], TypeError, r"datasets\[0\]. .*list"),
    (
      [tf.data.Dataset.range(2), tf.data.Dataset.from_tensors(1.0)],
      TypeError,
      r"found .*dtype=tf.int64.* in .datasets\[1\]., .*dtype=tf.float32",
    ),
  ],
)
def test_what_is_no_source_is_refused(datasets, error, named):
  with pytest.raises(error, match=named):
    programs.ClientDataSource(datasets)


class Trial:
  """The parts of a trial of a Vizier study that TFF's program uses."""

  def __init__(self, number):
    self.id = number
    self.parameters = {"learning_rate": 0.1 * (number + 1)}
    self.measurements: list[Any] = []
    self.final = None

  def materialize(self):
    return types.SimpleNamespace(
      creation_time=datetime.datetime.now().astimezone()
    )

  def check_early_stopping(self):
    return False

  def add_measurement(self, measurement):
    self.measurements.append(measurement)

  def complete(self, measurement):
    self.final = measurement


class Study:
  """A study of two learning rates."""

  def __init__(self):
    self.made: list[Trial] = []

  def trials(self):
    return types.SimpleNamespace(get=lambda: self.made)

  def suggest(self, count, client_id):
    del count, client_id
    self.made.append(Trial(len(self.made)))
    return self.made[-1:]


@pytest.mark.usefixtures("in_program")
def test_a_study_of_vizier_gets_all_measurements(tmp_path, process):
  study, rounds = Study(), 2
  with_scalars = programs.scalar_metrics(process)
  evaluate = tff.learning.algorithms.build_fed_eval(
    small_problem.functional_model()
  )
  plain = [
    tf.data.Dataset.from_tensors(small_problem.client_arrays()[k]) for k in IDS
  ]

  def update_hparams(hparams, parameters):
    hparams["client_work"]["learning_rate"] = np.float32(
      parameters["learning_rate"]
    )
    return hparams

  def folder(trial, name):
    path = tmp_path / str(trial.id) / name
    return tff.program.FileProgramStateManager(path)

  asyncio.run(
    tff.learning.programs.train_model_with_vizier(
      study=study,
      total_trials=2,
      update_hparams=update_hparams,
      train_model_program_logic=tff.learning.programs.train_model,
      train_process_factory=lambda _: with_scalars,
      train_data_source=source(),
      total_rounds=rounds,
      num_clients=3,
      program_state_manager_factory=lambda trial: folder(trial, "state"),
      model_output_manager_factory=lambda _: tff.program.MemoryReleaseManager(),
      evaluation_manager_factory=lambda trial: (
        tff.learning.programs.EvaluationManager(
          programs.ClientDataSource(plain),
          None,
          lambda name: folder(trial, name),
          lambda _: (evaluate, None),
          cohort_size=3,
          duration=datetime.timedelta(0),
        )
      ),
      evaluation_periodicity=rounds,
    )
  )
  assert len(study.made) == 2
  norms = []
  for trial in study.made:
    assert [m.steps for m in trial.measurements] == [1, 2]
    assert trial.final is not None
    for measurement in trial.measurements:
      values = {name: m.value for name, m in measurement.metrics.items()}
      assert values["aggregator/num_clients"] == 3
      assert "aggregator/coefficients" not in values
      assert np.isfinite(values["aggregator/loss_mean"])
    first = trial.measurements[0].metrics
    norms.append(first["aggregator/direction_norm"].value)
  # The first round of the second trial has the same model and twice the rate.
  assert norms[1] > 1.5 * norms[0]


def test_scalars_leave_the_rounds_as_they_are(process):
  data = small_problem.cohort(IDS[:3])
  with_scalars = programs.scalar_metrics(process)
  found, whole = (
    each.next(each.initialize(), data) for each in (with_scalars, process)
  )
  np.testing.assert_array_equal(
    *map(small_problem.flat_weights, (found.state, whole.state))
  )
  names = set(whole.metrics["aggregator"]) - set(found.metrics["aggregator"])
  assert {"client_ids", "coefficients", "client_losses"} <= names
  for name, value in found.metrics["aggregator"].items():
    np.testing.assert_array_equal(value, whole.metrics["aggregator"][name])


def test_a_dataset_computation_may_have_ids_that_are_names(process):
  """Ids are names in `tff.simulation.datasets`."""
  names = [f"client {k}" for k in range(3)]
  arrays = [small_problem.client_arrays()[k] for k in IDS[:3]]

  @tff.tensorflow.computation(np.str_)
  def dataset_of(client_id):
    place = tf.strings.to_number(tf.strings.substr(client_id, 7, 1), tf.int32)
    x, y = (
      tf.gather(tf.ragged.constant(halves, ragged_rank=1), place)
      for halves in zip(
        *[(x.tolist(), y.tolist()) for x, y in arrays], strict=True
      )
    )
    examples = tf.data.Dataset.from_tensors((tf.ensure_shape(x, [None, 5]), y))
    return client_dataset(client_id, examples)

  composed = tff.simulation.compose_dataset_computation_with_learning_process(
    dataset_of, process
  )
  output = composed.next(composed.initialize(), names)
  whole = process.next(process.initialize(), small_problem.cohort(IDS[:3]))
  assert output.metrics["aggregator"]["num_clients"] == 3
  assert len({*output.metrics["aggregator"]["client_ids"]}) == 3
  np.testing.assert_allclose(
    small_problem.flat_weights(output.state),
    small_problem.flat_weights(whole.state),
    atol=1e-6,
  )
