"""Tests of clients in programs of `tff.learning.programs`."""

import asyncio
import copy

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import small_problem
from tff_fair import algorithms, programs, runtime

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
  return algorithms.build(
    "fedfv",
    small_problem.functional_model(),
    client_optimizer=small_problem.optimizer(),
    batch_size=4,
    hparams={"tau": 1},  # A state that grows from round to round.
  )


def train(process, folder, rounds, should_discard=None):
  """Runs TFF's program; returns the last weights, and who took part."""
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
  # Each client has all its examples in one element, of another size.
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
