"""Tests of TFF's client works, and of client works that users write."""

import collections
import inspect
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import reference, small_problem
from tests.cases import one_of_each
from tests.refusals import rejected
from tests.summing import rounds as rounds_of_sums
from tff_fair import aggregators, client_works, rounds
from tff_fair.client_works import batches, local_model

FUNCTIONAL = small_problem.functional_model()
KERAS = small_problem.keras_model
INFO = local_model.describe(FUNCTIONAL)
EXAMPLES = tff.SequenceType(tff.types.tensorflow_to_type(INFO.batch_spec))
BY_EXAMPLES = tff.learning.ClientWeighting.NUM_EXAMPLES
IDS = small_problem.CLIENT_IDS[:4]
SGD = small_problem.optimizer()
MU = 0.2
MOMENTUM = 0.9


def module_of(build):
  """Returns the module of `build`, to reach what TFF does not make public."""
  return inspect.getmodule(build)


def fedavg(weighting=BY_EXAMPLES):
  return tff.learning.templates.build_model_delta_client_work(
    KERAS, SGD, weighting
  )


def functional_fedavg():
  return tff.learning.templates.build_functional_model_delta_client_work(
    model=FUNCTIONAL, optimizer=SGD, client_weighting=BY_EXAMPLES
  )


def fedprox():
  stock = module_of(tff.learning.algorithms.build_weighted_fed_prox)
  return stock.proximal_client_work.build_model_delta_client_work(
    KERAS,
    SGD,
    BY_EXAMPLES,
    delta_l2_regularizer=MU,
    loop_implementation=tff.learning.LoopImplementation.DATASET_REDUCE,
  )


def mime():
  stock = module_of(tff.learning.algorithms.build_weighted_mime_lite)
  return stock._build_mime_lite_functional_client_work(
    FUNCTIONAL,
    tff.learning.optimizers.build_sgdm(
      small_problem.LEARNING_RATE, momentum=MOMENTUM
    ),
    BY_EXAMPLES,
    tff.aggregators.MeanFactory(),
  )


def own(data_type):
  """Builds a user's work; all entries of an update are the features' mean."""

  @tff.tensorflow.computation(INFO.weights_type, data_type)
  def work(weights, data):
    if data_type != EXAMPLES:
      data = data.map(lambda _, examples: examples)
    x, y = data.get_single_element()
    step = tf.reduce_mean(x)
    return tff.learning.templates.ClientResult(
      tf.nest.map_structure(
        lambda w: tf.fill(w.shape, step), weights.trainable
      ),
      tf.shape(y)[0],
    )

  return client_works.build_from_computation(work)


DATA_TYPE = batches.data_type(INFO.batch_spec)
# Client works, each with its model and the method whose rule sums it.
WORKS: dict[str, Any] = {
  "fedavg": (fedavg, KERAS, "term", {"t": 2.0}),
  "functional_fedavg": (
    functional_fedavg,
    FUNCTIONAL,
    "adafed",
    {"gamma": 2.0},
  ),
  "fedprox": (fedprox, KERAS, "qfedavg", {"q": 1.0}),
  "mime": (mime, FUNCTIONAL, "semi_vred", {"beta": 0.3}),
  "own": (lambda: own(EXAMPLES), FUNCTIONAL, "gifair", {}),
  "own_with_id": (lambda: own(DATA_TYPE), FUNCTIONAL, "vred", {"beta": 0.3}),
}


def process_of(work, model, factory):
  """Composes a process as TFF's builders do, with this work and factory."""
  result = work.next.type_signature.result.result.member
  weights_type = local_model.describe(model).weights_type
  return tff.learning.templates.compose_learning_process(
    local_model.describe(model).initial_weights,
    tff.learning.templates.build_broadcast_process(weights_type),
    work,
    factory.create(result.update, result.update_weight),
    tff.learning.templates.build_apply_optimizer_finalizer(
      tff.learning.optimizers.build_sgdm(1.0), weights_type
    ),
  )


class NumpyClients:
  """Computes the rounds of the client works in NumPy, in float64."""

  def __init__(self):
    self.momentum = 0.0  # Mime's momentum, which the server keeps.

  def round(self, name, theta):
    run = {
      "mime": self._mime,
      "fedprox": self._fedprox,
      "own": self._own,
      "own_with_id": self._own,
    }.get(name, reference.run_client)
    return [run(theta, k) for k in IDS]

  def end_round(self, theta):
    arrays = [small_problem.client_arrays()[k] for k in IDS]
    gradients = [reference.loss_and_gradient(theta, *a)[1] for a in arrays]
    sizes = [len(y) for _, y in arrays]
    self.momentum = MOMENTUM * self.momentum + np.average(
      gradients, axis=0, weights=sizes
    )

  def _fedprox(self, theta, k):
    # TFF 0.87 adds the proximal term with the wrong sign.
    return reference.run_client(theta, k, mu=-MU)

  def _mime(self, theta, k):
    x, y = small_problem.client_arrays()[k]
    client = reference.run_client(theta, k)
    w = theta.copy()
    for start in range(0, len(y), small_problem.BATCH_SIZE):
      batch = slice(start, start + small_problem.BATCH_SIZE)
      _, g = reference.loss_and_gradient(w, x[batch], y[batch])
      w = w - small_problem.LEARNING_RATE * (MOMENTUM * self.momentum + g)
    client.update = theta - w
    return client

  def _own(self, theta, k):
    client = reference.run_client(theta, k)
    x, _ = small_problem.client_arrays()[k]
    client.update = np.full_like(theta, np.float64(x).mean())
    return client


def data_of(name):
  whole = name.startswith("own")
  return [
    small_problem.whole(k) if whole else small_problem.batched(k) for k in IDS
  ]


def kind_of_work(name):
  """Returns whether the model is of Keras, and whether the work is a user's."""
  return WORKS[name][1] is KERAS, name.startswith("own")


@pytest.mark.parametrize("name", one_of_each(reversed(WORKS), kind_of_work))
def test_two_rounds_of_a_composed_process_are_those_of_numpy(name):
  build, model, method, hparams = WORKS[name]
  # FedProx's client work has no learning rate among its hyperparameters.
  rate = small_problem.LEARNING_RATE if name == "fedprox" else None
  work = client_works.with_signals(build(), model, learning_rate=rate)
  process = process_of(work, model, rounds_of_sums.factory_of(method, hparams))
  state = process.initialize()
  theta = reference.initial_theta()
  numpy_clients = NumpyClients()
  for _ in range(2):
    state, metrics = process.next(state, data_of(name))
    clients = numpy_clients.round(name, theta)
    numpy_clients.end_round(theta)
    theta = theta - reference.METHODS[method].direction(clients, **hparams)
    np.testing.assert_allclose(
      small_problem.flat_weights(state), theta, rtol=0, atol=4e-6
    )
    in_order = sorted(clients, key=lambda client: client.client_id)
    found = metrics["aggregator"]
    np.testing.assert_array_equal(found["client_ids"], sorted(IDS))
    np.testing.assert_allclose(
      found["client_losses"], [c.loss for c in in_order], rtol=1e-6
    )


def results(work, data):
  weights = [INFO.initial_weights()] * len(data)
  return work.next(work.initialize(), weights, data).result


def test_clients_report_the_received_model_and_their_own_weight():
  stock = fedavg(tff.learning.ClientWeighting.UNIFORM)
  found = results(
    client_works.with_signals(stock, KERAS),
    [*data_of("fedavg"), small_problem.batched(31).take(0)],
  )
  for result, k in zip(found[:-1], IDS, strict=True):
    client = reference.run_client(reference.initial_theta(), k)
    signals = result.update_weight
    assert [*signals] == [
      *("client_id", "num_examples", "loss", "accuracy", "learning_rate")
    ]
    assert (signals["client_id"], signals["num_examples"]) == (k, 1)
    np.testing.assert_allclose(
      [signals["loss"], signals["accuracy"], signals["learning_rate"]],
      [client.loss, client.accuracy, small_problem.LEARNING_RATE],
      rtol=1e-6,
    )
  assert found[-1].update_weight["client_id"] == 0


def test_a_client_that_stock_weighs_zero_is_left_out():
  work = client_works.with_signals(functional_fedavg(), FUNCTIONAL)
  process = process_of(work, FUNCTIONAL, aggregators.TermFactory())
  data = [small_problem.not_a_number(31), *data_of("functional_fedavg")]
  output = process.next(process.initialize(), data)
  found = output.metrics["aggregator"]
  assert (found["num_clients"], found["num_clients_excluded"]) == (len(IDS), 1)


def test_state_and_hyperparameters_are_those_of_the_work():
  stock = fedavg()
  work = client_works.with_signals(stock, KERAS)
  assert work.initialize() == stock.initialize()
  state = work.set_hparams(
    work.initialize(), collections.OrderedDict(learning_rate=0.5)
  )
  assert work.get_hparams(state)["learning_rate"] == 0.5


def test_a_signal_that_no_client_work_reports_is_named():
  work = client_works.with_signals(mime(), FUNCTIONAL)
  for factory, signal in (
    (aggregators.FedNovaFactory(), "effective_steps"),
    (aggregators.QFedAvgFactory(), "learning_rate"),
  ):
    with pytest.raises(TypeError, match=signal):
      process_of(work, FUNCTIONAL, factory)


def weighted_by(weight):
  @tff.tensorflow.computation(INFO.weights_type, EXAMPLES)
  def work(weights, data):
    del data
    return tff.learning.templates.ClientResult(weights.trainable, weight)

  return client_works.build_from_computation(work)


def of_other_weights():
  @tff.tensorflow.computation(np.float32, EXAMPLES)
  def work(weights, data):
    del data
    return tff.learning.templates.ClientResult(weights, 1.0)

  return client_works.build_from_computation(work)


def of_other_data():
  @tff.tensorflow.computation(INFO.weights_type, tff.SequenceType(np.float32))
  def work(weights, data):
    del data
    return tff.learning.templates.ClientResult(weights.trainable, 1.0)

  return client_works.build_from_computation(work)


@pytest.mark.parametrize("rate", [0.0, 1e-46, 1e39])
def test_a_learning_rate_is_positive_and_finite_in_float32(rate):
  with rejected("learning_rate", value=rate):
    client_works.with_signals(fedavg(), KERAS, learning_rate=rate)


@pytest.mark.parametrize(
  ("build", "named"),
  [
    (lambda: FUNCTIONAL, "ClientWorkProcess, found FunctionalModel"),
    (of_other_weights, "weights.* float32"),
    (of_other_data, r"examples.* float32\*"),
    (lambda: weighted_by(np.ones(2)), r"scalar.* float64\[2\]"),
    (lambda: weighted_by({"loss": 1.0}), "scalar.* <loss=float32>"),
  ],
)
def test_work_that_does_not_fit_is_refused(build, named):
  with pytest.raises(TypeError, match=named):
    client_works.with_signals(build(), FUNCTIONAL)


ALL_IDS = small_problem.CLIENT_IDS
BROKEN = ALL_IDS[2]


@tff.tensorflow.computation(INFO.weights_type, DATA_TYPE)
def work(weights, data):
  """Returns an update with the loss in each entry; one client diverges."""
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


def test_a_process_sums_what_own_work_reports():
  process = rounds.compose_client_work(
    FUNCTIONAL,
    client_works.build_from_computation(work),
    aggregators.TermFactory(t=0.5),
    server_optimizer=small_problem.optimizer(0.25),
  )
  state = process.initialize()
  before = small_problem.flat_weights(state)
  output = process.next(state, small_problem.cohort(ALL_IDS))
  p, f = [], []
  for client_id in ALL_IDS:
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
  assert aggregator["num_clients"] == len(ALL_IDS) - 1
  assert aggregator["num_clients_excluded"] == 1


def test_the_work_of_a_method_makes_its_process():
  settings = client_works.TrainingSettings(batch_size=4)
  process = rounds.compose_client_work(
    FUNCTIONAL,
    client_works.build_training(FUNCTIONAL, SGD, settings, signals=("loss",)),
    aggregators.SemiVRedFactory(beta=0.3),
  )
  cohorts = [ALL_IDS] * 2
  np.testing.assert_allclose(
    small_problem.flat_weights(small_problem.run_rounds(process, cohorts)),
    reference.run("semi_vred", cohorts, beta=0.3),
    rtol=1e-5,
    atol=1e-6,
  )


@pytest.mark.parametrize(
  "factory", [tff.aggregators.MeanFactory(), aggregators.TermFactory]
)
def test_a_factory_of_another_kind_is_refused(factory):
  with pytest.raises(TypeError, match=r"tff_fair\.aggregators"):
    rounds.compose_client_work(
      FUNCTIONAL, client_works.build_from_computation(work), factory
    )


@pytest.mark.parametrize(
  ("work", "named"),
  [
    (lambda weights, data: (weights, data), r"tff\.Computation.* function"),
    (
      tff.tensorflow.computation(lambda x: x, np.float32),
      r"two.* \(float32 -> ",
    ),
  ],
)
def test_other_objects_are_refused_as_client_work(work, named):
  with pytest.raises(TypeError, match=named):
    client_works.build_from_computation(work)
