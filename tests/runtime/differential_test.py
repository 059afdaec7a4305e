"""Tests that TFF's own processes give the same results in both contexts."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import small_problem
from tests.runtime import side_by_side

SIZES = (1, 31, 32, 33, 70)
_ROUNDS = 3
_SECURE = side_by_side.Options(simulate_secure_sums=True)
_FLOATS = tff.to_type(
  collections.OrderedDict(a=tff.TensorType(np.float32, [3]), b=np.float32)
)
_INTEGERS = tff.TensorType(np.int32, [4])


class Stock(NamedTuple):
  """A process or a computation of TFF's.

  Attributes:
    start: Returns the first state; `None` if there is none.
    step: Maps a state and the clients' arguments to the next state and the
      whole output.
    arguments: Maps a number of clients to the arguments.
    options: The options of both contexts.
  """

  start: Callable[[], Any]
  step: Callable[..., tuple[Any, Any]]
  arguments: Callable[[int], Sequence[Any]]
  options: side_by_side.Options = side_by_side.PLAIN


def differences(
  name: str, num_clients: int, both: side_by_side.Both
) -> list[str]:
  """Returns the differences between a process's rounds in the two contexts."""
  stock = _built(name)
  args = stock.arguments(num_clients)

  def rounds() -> list[Any]:
    outputs, state = [], stock.start()
    for _ in range(_ROUNDS):
      state, output = stock.step(state, *args)
      outputs.append(output)
    return outputs

  exact, other = both.call(rounds, stock.options)
  if exact.error is not None or other.error is not None:
    return [f"{name}: {exact.error!r}, {other.error!r}"]
  return [
    f"{name}, {num_clients} clients: {difference}"
    for difference in side_by_side.differences(
      exact.value, other.value, rounds=True
    )
  ]


@functools.cache
def _built(name: str) -> Stock:
  return NAMES[name]()


def _data(client: int) -> tf.data.Dataset:
  client_id = small_problem.CLIENT_IDS[client % len(small_problem.CLIENT_IDS)]
  arrays = small_problem.client_arrays()[client_id]
  return tf.data.Dataset.from_tensor_slices(arrays).batch(5)


def _each(of_client: Callable[[int], Any]) -> Callable[[int], Sequence[Any]]:
  """Returns a function from n to an argument list: only n clients' values."""
  return lambda num_clients: [[of_client(k) for k in range(num_clients)]]


def _of_process(
  process: Any, arguments: Callable[[int], Sequence[Any]], **others: Any
) -> Stock:
  def step(state: Any, *args: Any) -> tuple[Any, Any]:
    output = process.next(state, *args)
    return output.state, output

  return Stock(process.initialize, step, arguments, **others)


def _learning(build: Callable[..., Any], *args: Any) -> Callable[[], Stock]:
  return lambda: _of_process(
    build(small_problem.functional_model(), *args), _each(_data)
  )


def _sgd(rate: float = 0.1) -> Any:
  return tff.learning.optimizers.build_sgdm(rate, momentum=0.9)


def _aggregating(
  build: Callable[[], Any],
  value_type: tff.Type = _FLOATS,
  *,
  is_weighted: bool = False,
  **others: Any,
) -> Callable[[], Stock]:
  types = [value_type, *([tff.TensorType(np.float32)] if is_weighted else [])]

  def arguments(num_clients: int) -> Sequence[Any]:
    clients = [_value(value_type, client) for client in range(num_clients)]
    weights = [np.asarray(1 + c % 3, np.float32) for c in range(num_clients)]
    return [clients, weights][: len(types)]

  return lambda: _of_process(build().create(*types), arguments, **others)


def _value(value_type: tff.Type, client: int) -> Any:
  draws = np.random.default_rng(client)

  def of(part: tff.Type) -> Any:
    if isinstance(part, tff.StructType):
      return collections.OrderedDict(
        (name, of(member)) for name, member in tff.structure.to_elements(part)
      )
    numbers = draws.integers(-4, 5, part.shape) / 2.0
    return np.asarray(numbers).astype(part.dtype)

  return of(value_type)


def _personal() -> Stock:
  def tune(model: Any, train: Any, test: Any, context: Any = None) -> Any:
    del train, context
    num = test.reduce(0, lambda n, row: n + tf.shape(row[0])[0])
    with tf.control_dependencies([model.trainable_variables[0].read_value()]):
      return collections.OrderedDict(num=tf.identity(num))

  comp = tff.learning.algorithms.build_personalization_eval_computation(
    small_problem.keras_model,
    collections.OrderedDict(plain=lambda: tune),
    lambda _, data: collections.OrderedDict(
      num=data.reduce(0, lambda n, row: n + tf.shape(row[0])[0])
    ),
    max_num_clients=100,
  )
  return Stock(
    lambda: None, lambda _, *args: (None, comp(*args)), _personal_arguments
  )


def _personal_arguments(num_clients: int) -> Sequence[Any]:
  clients = [
    collections.OrderedDict(
      train_data=_data(c).unbatch(), test_data=_data(c + 1).unbatch()
    )
    for c in range(num_clients)
  ]
  return [small_problem.model_weights(), clients]


def _recon() -> Any:
  def model() -> Any:
    inputs = tf.keras.Input([small_problem.NUM_FEATURES])
    shared = tf.keras.layers.Dense(2, kernel_initializer="ones")
    local = tf.keras.layers.Dense(3, kernel_initializer="ones")
    keras = tf.keras.Model(inputs, local(shared(inputs)))
    return tff.learning.models.ReconstructionModel.from_keras_model_and_layers(
      keras_model=keras,
      global_layers=[shared],
      local_layers=[local],
      input_spec=small_problem.INPUT_SPEC,
    )

  return tff.learning.algorithms.build_fed_recon(
    model,
    loss_fn=lambda: tf.keras.losses.SparseCategoricalCrossentropy(True),
    metrics_fn=lambda: [tf.keras.metrics.SparseCategoricalAccuracy()],
    server_optimizer_fn=_sgd(1.0),
    client_optimizer_fn=_sgd(),
    reconstruction_optimizer_fn=_sgd(),
    dataset_split_fn=tff.learning.models.ReconstructionModel.simple_dataset_split_fn,
  )


def _kmeans() -> Stock:
  process = tff.learning.algorithms.build_fed_kmeans(
    2, (2,), random_seed=(1, 2)
  )

  def points(client: int) -> tf.data.Dataset:
    draws = np.random.default_rng(client)
    return tf.data.Dataset.from_tensor_slices(
      draws.integers(0, 9, [1 + client % 4, 2]).astype(np.float32)
    )

  return _of_process(process, _each(points))


def _texts(client: int) -> tf.data.Dataset:
  words = ["a", "hello", "b", "word"][: 1 + client % 4]
  return tf.data.Dataset.from_tensor_slices(words).batch(2)


def _histogram() -> Stock:
  process = tff.analytics.build_hierarchical_histogram_process(
    0.0, 8.0, 4, clip_mechanism="distinct"
  )

  def numbers(client: int) -> tf.data.Dataset:
    found = np.arange(1 + client % 5, dtype=np.float32)
    return tf.data.Dataset.from_tensor_slices(found)

  def step(state: Any, clients: Any) -> tuple[Any, Any]:
    state, decoder = process.next(state, clients)
    # The decoder is an object that holds the result in tables.
    return state, (state, decoder)

  return Stock(process.initialize, step, _each(numbers), _SECURE)


def _heavy_hitters() -> Stock:
  compute = tff.analytics.heavy_hitters.iblt.build_iblt_computation(
    capacity=10, string_max_bytes=10, seed=1
  )

  def step(state: Any, clients: Any) -> tuple[Any, Any]:
    found = compute(clients)
    # TFF's executors return heavy hitters in another order at each call.
    order = np.argsort(found.heavy_hitters)
    lists = {name: getattr(found, name)[order] for name in _OF_HEAVY_HITTERS}
    return state, [lists, found.clients, found.num_not_decoded]

  return Stock(lambda: None, step, _each(_texts))


_OF_HEAVY_HITTERS = (
  "heavy_hitters",
  "heavy_hitters_unique_counts",
  "heavy_hitters_counts",
)
_A = tff.aggregators
_L = tff.learning.algorithms
_quantiles = functools.partial(
  _A.PrivateQuantileEstimationProcess.no_noise,
  2.0,
  0.5,
  0.2,
)


def _measured() -> Any:
  return _A.add_measurements(
    _A.SumFactory(),
    client_measurement_fn=lambda _: collections.OrderedDict(
      num=tff.federated_sum(tff.federated_value(1, tff.CLIENTS))
    ),
    server_measurement_fn=lambda value: collections.OrderedDict(same=value),
  )


NAMES: Mapping[str, Callable[[], Stock]] = {
  "weighted_fed_avg": _learning(_L.build_weighted_fed_avg, _sgd(), _sgd(1.0)),
  "weighted_fed_avg of Keras": _learning(
    lambda _: _L.build_weighted_fed_avg(
      small_problem.keras_model, _sgd(), _sgd(1.0)
    )
  ),
  "unweighted_fed_avg": _learning(_L.build_unweighted_fed_avg, _sgd()),
  "weighted_fed_prox": _learning(_L.build_weighted_fed_prox, 0.1, _sgd()),
  "unweighted_fed_prox": _learning(_L.build_unweighted_fed_prox, 0.1, _sgd()),
  "fed_sgd": _learning(_L.build_fed_sgd, _sgd()),
  "weighted_mime_lite": _learning(_L.build_weighted_mime_lite, _sgd()),
  "unweighted_mime_lite": _learning(_L.build_unweighted_mime_lite, _sgd()),
  "fed_recon": _learning(lambda _: _recon()),
  "fed_eval": _learning(_L.build_fed_eval),
  "fed_kmeans": _kmeans,
  "personalization_eval": _personal,
  "sum": _aggregating(_A.SumFactory),
  "sum of integers": _aggregating(_A.SumFactory, _INTEGERS),
  "mean": _aggregating(_A.MeanFactory, is_weighted=True),
  "unweighted mean": _aggregating(_A.UnweightedMeanFactory),
  "clipping": _aggregating(lambda: _A.clipping_factory(1.0, _A.SumFactory())),
  "adaptive clipping": _aggregating(
    lambda: _A.clipping_factory(_quantiles(), _A.SumFactory())
  ),
  "zeroing": _aggregating(
    lambda: _A.zeroing_factory(2.0, _A.MeanFactory()), is_weighted=True
  ),
  "adaptive zeroing": _aggregating(
    lambda: _A.zeroing_factory(_quantiles(), _A.SumFactory())
  ),
  "robust": _aggregating(tff.learning.robust_aggregator, is_weighted=True),
  "concat": _aggregating(lambda: _A.concat_factory(_A.SumFactory())),
  "measurements": _aggregating(_measured),
  "modular clipping": _aggregating(
    lambda: _A.modular_clipping.ModularClippingSumFactory(
      -3, 4, _A.SumFactory()
    ),
    _INTEGERS,
  ),
  "DP, fixed": _aggregating(
    lambda: _A.DifferentiallyPrivateFactory.gaussian_fixed(0.0, 8.0, 1.0)
  ),
  "secure sum": _aggregating(
    lambda: _A.SecureSumFactory(4, -4), _INTEGERS, options=_SECURE
  ),
  "secure sum of floats": _aggregating(
    lambda: _A.SecureSumFactory(4.0, -4.0), options=_SECURE
  ),
  "secure sum, adaptive": _aggregating(
    lambda: _A.SecureSumFactory(_quantiles()), options=_SECURE
  ),
  "secure modular sum": _aggregating(
    lambda: _A.SecureModularSumFactory(1000, symmetric_range=True),
    _INTEGERS,
    options=_SECURE,
  ),
  "secure mean": _aggregating(
    tff.learning.secure_aggregator, is_weighted=True, options=_SECURE
  ),
  "hierarchical histogram": _histogram,
  "IBLT": _heavy_hitters,
}


# Processes that are quick to build and to compile.
_QUICK = (
  *("sum", "sum of integers", "mean", "clipping", "adaptive clipping"),
  *("zeroing", "concat", "measurements", "modular clipping"),
)


@pytest.fixture(scope="module")
def both():
  opened = side_by_side.Both()
  yield opened
  opened.close()


@pytest.mark.parametrize("name", _QUICK)
def test_quick_processes(name, both):
  num_clients = 33  # One more than a part has.
  assert not differences(name, num_clients, both)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_all_processes(name, both):
  for num_clients in SIZES:
    assert not differences(name, num_clients, both)
