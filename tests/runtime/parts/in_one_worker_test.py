"""Tests of rounds in parts in a worker of this program."""

import asyncio
import functools
import os
import signal

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import small_problem
from tests.runtime.computations import process
from tests.runtime.ways import assert_same_bits
from tff_fair import evaluation, runtime
from tff_fair.experiments import settings
from tff_fair.runtime import private_tff, shared_values, supervised_contexts
from tff_fair.runtime.parts import calls as part_calls
from tff_fair.runtime.parts import cohort_cuts


@functools.cache
def initial(name):
  return process(name).initialize()


def client(client_id, *, scale=1.0):
  rng = np.random.default_rng(client_id)
  x = scale * rng.normal(size=(3, small_problem.NUM_FEATURES))
  y = rng.integers(small_problem.NUM_CLASSES, size=3)
  arrays = x.astype(np.float32), y.astype(np.int32)
  return small_problem.whole(client_id, arrays)


def run(name, clients, size):
  with runtime.in_parts_of(size):
    return process(name).next(initial(name), clients)


def weights(output):
  return small_problem.flat_weights(output.state)


def num_datasets(arg):
  if isinstance(arg, tff.framework.CardinalityCarrying):
    return arg.cardinality.get(tff.CLIENTS, 0)
  if isinstance(arg, tff.structure.Struct | list | tuple):
    return sum(map(num_datasets, arg))
  return int(isinstance(arg, tf.data.Dataset))


@pytest.fixture
def calls(monkeypatch):
  """The numbers of clients in each call that a worker gets."""
  found = []
  for name in ("_invoke_whole", "_begin_part"):
    call = getattr(supervised_contexts.LocalContext, name)

    def record(self, comp, arg, *, call=call):
      found.append(num_datasets(arg))
      return call(self, comp, arg)

    monkeypatch.setattr(supervised_contexts.LocalContext, name, record)
  return found


def test_runs_and_contexts_cut_alike_by_default():
  assert cohort_cuts.CLIENTS_PER_PART == settings.federation.USUAL_PART


@pytest.mark.parametrize("name", ["fedavg", "fedmgda_plus"])
def test_one_client_more_than_a_part_has(name, calls):
  clients = [*map(client, range(33))]
  initial(name)
  calls.clear()
  parts = process(name).next(initial(name), clients)
  assert calls == [32, 1, 0]
  whole = run(name, clients, 0)
  assert calls == [32, 1, 0, 33]
  np.testing.assert_allclose(weights(parts), weights(whole), rtol=1e-5)
  assert type(parts.state) is type(whole.state)
  tf.nest.assert_same_structure(parts, whole, check_types=True)
  assert_same_bits(parts, run(name, clients, 32))
  assert run(name, clients[:32], 32).metrics  # A cohort that is one part.
  assert calls[-1] == 32


def test_no_part_is_empty(calls):
  clients = [*map(client, range(6))]
  for size, expected in ((2, [2, 2, 2, 0]), (3, [3, 3, 0]), (6, [6])):
    calls.clear()
    run("fedavg", clients, size)
    assert calls == expected


@pytest.mark.parametrize("name", ["fedavg", "fedmgda_plus"])
def test_clients_that_do_not_count_and_some_that_come_twice(name):
  clients = [
    client(k % 5, scale=np.nan if k in (1, 6) else 1) for k in range(8)
  ]
  parts, whole = run(name, clients, 3), run(name, clients, 0)
  np.testing.assert_allclose(weights(parts), weights(whole), rtol=1e-5)
  assert np.isfinite(weights(parts)).all()
  found = parts.metrics["aggregator"]
  assert found["num_clients"] == 6
  assert found["num_clients_excluded"] == 2
  # A cohort in which no client counts leaves the model as it is.
  excluded = [client(k, scale=np.nan) for k in range(4)]
  np.testing.assert_array_equal(
    weights(run(name, excluded, 3)),
    small_problem.flat_weights(initial(name)),
  )


@pytest.mark.parametrize(
  ("name", "num_called"),
  [("fedmgda_plus", 2), ("fedavg", 3), ("fedmgda_plus", 4)],
)
def test_parts_whose_worker_is_lost_are_computed_again(
  name, num_called, monkeypatch, calls
):
  clients = [*map(client, range(7))]
  expected = run(name, clients, 3)
  said, lost = [], []
  invoke = supervised_contexts.LocalContext._wait

  def lose_one(self, future, supervised):
    if len(calls) == num_called and not lost:
      lost.append(self.worker.pid)
      os.kill(self.worker.pid, signal.SIGKILL)
    return invoke(self, future, supervised)

  monkeypatch.setattr(supervised_contexts.LocalContext, "_wait", lose_one)
  calls.clear()
  with runtime.supervised(say=said.append):
    found = run(name, clients, 3)
  assert_same_bits(found, expected)
  assert len(lost) == 1
  assert [line.startswith(f"The worker (process {lost[0]})") for line in said]
  assert calls == [3, 3, 1, 0]


def test_an_error_in_a_part_leaves_the_worker_of_use():
  clients = [*map(client, range(7))]
  expected = run("fedavg", clients, 3)
  (worker,) = runtime.worker_pids()
  wrong = tf.data.Dataset.from_tensors({"x": [[1.0]]})
  with pytest.raises(Exception, match=r"(?i)type|shape|struct"):
    run("fedavg", [*clients[:4], wrong, *clients[4:]], 3)
  assert_same_bits(run("fedavg", clients, 3), expected)
  assert runtime.worker_pids() == (worker,)


@pytest.mark.parametrize("name", ["fedavg", "fedmgda_plus"])
def test_calls_under_way_together_and_alone_are_equal(name, monkeypatch):
  clients = [*map(client, range(12))]
  expected = run(name, clients, 2)
  for most_bytes in (0, 2**40):
    monkeypatch.setattr(part_calls, "_MOST_BYTES_BESIDE_OTHERS", most_bytes)
    assert_same_bits(run(name, clients, 2), expected)


NUM_LARGE = 2_000_000  # Such an array is in a file.


@tff.tensorflow.computation(np.float32)
def large(x):
  return tf.fill([NUM_LARGE], x), 2 * x


@tff.federated_computation(
  tff.FederatedType(np.float32, tff.SERVER),
  tff.FederatedType(np.float32, tff.CLIENTS),
)
def large_sums(at_server, rows):
  sums = tff.federated_sum(tff.federated_map(large, rows))
  return tff.federated_zip((sums, at_server))


def test_large_sums_go_back_as_their_files(monkeypatch):
  kept = []
  keep = shared_values.SharingExecutor.keep

  async def record(self, value):
    kept.append(await keep(self, value))
    return kept[-1]

  monkeypatch.setattr(shared_values.SharingExecutor, "keep", record)
  with runtime.in_parts_of(1):
    ((whole, small), at_server) = large_sums(7.0, [*map(float, range(10))])
  np.testing.assert_array_equal(whole, np.full(NUM_LARGE, 45, np.float32))
  assert (small, at_server) == (90, 7)
  assert len(kept) == 10 + 2 + 1  # Parts, groups of them, and the result.
  for value in kept:
    assert value.message.ByteSize() < 1000
    assert [file is not None for file in value.files][:2] == [True, False]


def test_without_private_names_of_tff_parts_are_equal(monkeypatch):
  clients = [*map(client, range(12))]
  expected = run("fedmgda_plus", clients, 2)
  try:
    monkeypatch.setattr(private_tff, "check", lambda: False)
    runtime.use_local()
    assert_same_bits(run("fedmgda_plus", clients, 2), expected)
  finally:
    monkeypatch.undo()
    runtime.use_local()


def test_values_of_a_program_are_computed_in_parts():
  clients = [*map(client, range(5))]
  expected = run("fedavg", clients, 2)

  async def program():
    state = process("fedavg").initialize()
    output = process("fedavg").next(state, clients)
    return await tff.program.materialize_value(output)

  try:
    runtime.use_local(program=True, clients_per_part=2)
    assert_same_bits(asyncio.run(program()), expected)
  finally:
    runtime.use_local()


def test_what_cannot_be_cut_is_told_once(monkeypatch, calls):
  monkeypatch.setattr(cohort_cuts, "_has_told", False)
  clients = [*map(client, range(5))]
  said = []
  monkeypatch.setattr(cohort_cuts, "phases_of", lambda _: cohort_cuts.Phases())
  calls.clear()
  with runtime.supervised(say=said.append):
    run("fedavg", clients, 2)
    run("fedavg", clients, 2)
  (line,) = said
  assert line.startswith("One worker computes all 5 clients of a cohort, not")
  assert calls == [5, 5]


def test_an_evaluation_is_one_call(calls):
  evaluate = evaluation.build_client_evaluation(
    small_problem.functional_model()
  )
  model = initial("fedavg").global_model_weights
  calls.clear()
  with runtime.in_parts_of(2):
    rows = evaluate(model, [*map(client, range(5))])
  assert calls == [5]
  assert rows["client_id"].tolist() == [*range(5)]


def test_a_negative_size_of_parts_is_refused():
  with pytest.raises(ValueError, match="clients_per_part"):
    runtime.use_local(clients_per_part=-1)
