"""Tests of client work of a user's own, alone and in a process."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import small_problem
from tff_fair import aggregators, algorithms, client_works, rounds
from tff_fair.client_works import batches, local_model

MODEL = small_problem.functional_model()
INFO = local_model.describe(MODEL)
DATA_TYPE = batches.data_type(INFO.batch_spec)
IDS = small_problem.CLIENT_IDS
BROKEN = IDS[2]


@tff.tensorflow.computation(INFO.weights_type, DATA_TYPE)
def work(weights, data):
  """The update is the client's loss in every entry; one client diverges."""
  client_id, (x, y) = data.get_single_element()
  loss = tf.reduce_sum(x) + tf.cast(tf.reduce_sum(y), tf.float32)
  entry = tf.where(tf.equal(client_id, BROKEN), np.nan, loss)
  update = tf.nest.map_structure(
    lambda w: tf.fill(w.shape, entry), weights.trainable
  )
  signals = collections.OrderedDict(
    client_id=client_id,
    num_examples=tf.cast(tf.shape(y)[0], tf.float32),
    loss=loss,
  )
  return tff.learning.templates.ClientResult(update, signals)


def whole(client_ids):
  return [small_problem.whole(k) for k in client_ids]


def test_the_work_of_a_client_is_that_of_the_computation():
  process = client_works.build_from_computation(work)
  assert process.initialize() == ()
  output = process.next((), [INFO.initial_weights()] * 2, whole(IDS[:2]))
  assert output.state == ()
  found = [result.update_weight["num_examples"] for result in output.result]
  assert found == list(small_problem.SIZES[:2])


def test_a_process_sums_what_own_work_reports():
  process = rounds.compose_client_work(
    MODEL,
    client_works.build_from_computation(work),
    aggregators.TermFactory(t=0.5),
    server_optimizer=small_problem.optimizer(0.25),
  )
  state = process.initialize()
  before = small_problem.flat_weights(state)
  output = process.next(state, whole(IDS))
  p, f = [], []
  for client_id in IDS:
    if client_id != BROKEN:
      x, y = small_problem.client_arrays()[client_id]
      p.append(len(y))
      f.append(x.sum(dtype=np.float64) + y.sum())
  weight = np.array(p) * np.exp(0.5 * (np.array(f) - np.max(f)))
  direction = weight / weight.sum() @ np.array(f)
  np.testing.assert_allclose(
    small_problem.flat_weights(output.state),
    before - 0.25 * direction,
    rtol=1e-5,
  )
  aggregator = output.metrics["aggregator"]
  assert aggregator["num_clients"] == len(IDS) - 1
  assert aggregator["num_clients_excluded"] == 1


def test_the_work_of_a_method_makes_its_process():
  sgd = small_problem.optimizer()
  settings = client_works.TrainingSettings(batch_size=4)
  own = rounds.compose_client_work(
    MODEL,
    client_works.build_training(MODEL, sgd, settings, signals=("loss",)),
    aggregators.SemiVRedFactory(beta=0.3),
  )
  method = algorithms.build(
    "semi_vred",
    MODEL,
    client_optimizer=sgd,
    batch_size=4,
    hparams={"beta": 0.3},
  )
  states = [own.initialize(), method.initialize()]
  for _ in range(2):
    states = [
      process.next(state, whole(IDS)).state
      for process, state in zip((own, method), states, strict=True)
    ]
  np.testing.assert_array_equal(*map(small_problem.flat_weights, states))


def test_a_signal_that_is_missing_is_named():
  with pytest.raises(
    TypeError, match=r"FedNovaRule needs .* effective_steps ca"
  ):
    rounds.compose_client_work(
      MODEL,
      client_works.build_from_computation(work),
      aggregators.FedNovaFactory(),
    )


@pytest.mark.parametrize(
  "factory", [tff.aggregators.MeanFactory(), aggregators.TermFactory]
)
def test_a_factory_of_another_kind_is_refused(factory):
  with pytest.raises(TypeError, match=r"one of tff_fair\.aggregators, found "):
    rounds.compose_client_work(
      MODEL, client_works.build_from_computation(work), factory
    )


def test_what_is_no_computation_is_refused():
  with pytest.raises(TypeError, match=r"tff\.Computation, found function\."):
    client_works.build_from_computation(lambda weights, data: (weights, data))


def test_a_computation_of_one_argument_is_refused():
  identity = tff.tensorflow.computation(lambda x: x, np.float32)
  with pytest.raises(TypeError, match=r"two arguments, .* type \(float32 -> "):
    client_works.build_from_computation(identity)
