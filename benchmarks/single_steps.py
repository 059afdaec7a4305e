"""What single steps take, beside a round or beside plain TensorFlow.

python -m benchmarks.single_steps --show=certificate,coefficients,...

certificate   Rounds with stacked sums, without a certificate and with it.
              FedAvg needs no Gram matrix, so its certificate adds the matrix,
              too. Methods that have one pay for the point of least norm
              alone, the last line.
coefficients  FedMGDA+'s quadratic program for 100 clients; FedFV with the
              cohorts of ten rounds remembered: its rule, and the inner
              products that are new in a round (10 x 110). Beside a FedAvg
              round of the CNN.
evaluation    Loss and accuracy of many clients. Plain TensorFlow calls one
              compiled function for each, over arrays that are tensors.
state         40 MB into a computation and back.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from absl import flags

import tff_fair
from benchmarks import measure, workload
from tff_fair import kernels, types
from tff_fair.methods import fedfv

_SHOW = flags.DEFINE_list("show", [], "What to measure; none for all.")
_MODEL = flags.DEFINE_enum(
  "model", "mlp", list(workload.MODELS), "Of `certificate` and `evaluation`."
)
_CLIENTS = flags.DEFINE_integer("clients", 500, "Clients to evaluate.")
_EXAMPLES = flags.DEFINE_integer("examples", 100, "Examples of each of them.")
_REPETITIONS = flags.DEFINE_integer("repetitions", 20, "Times each is timed.")

_CLIENTS_OF_PROGRAM = 100
_ROUNDS_REMEMBERED = 10
_WEIGHTS_OF_CNN = 1_206_590
_WEIGHTS_OF_STATE = 10_000_000

_Calls = dict[str, Callable[[], object]]


def _in_turns(calls: _Calls) -> dict[str, list[float]]:
  return measure.time_in_turns(calls, repetitions=_REPETITIONS.value)


def _certificate() -> str:
  model = workload.MODELS[_MODEL.value]()
  data = workload.client_data(model)
  gram = tf.constant(_gram(workload.NUM_CLIENTS))
  stationarity = tf.function(kernels.pareto_stationarity)

  def least_norm() -> object:
    return stationarity(gram).value.numpy()

  calls: _Calls = {
    name: workload.rounds(
      workload.process(
        "fedavg", model, aggregation="stacked", certificate=certificate
      ),
      data,
    )
    for name, certificate in {"stacked": False, "certificate": True}.items()
  }
  calls["least norm alone"] = least_norm
  return measure.ratio_table(_in_turns(calls), "stacked")


def _gram(num_rows: int) -> np.ndarray:
  """Returns the Gram matrix of updates that share a direction."""
  rng = np.random.default_rng(0)
  rows = rng.normal(size=(num_rows, 300)) + rng.normal(size=300)
  return rows @ rows.T


def _fedfv_rule() -> Callable[[], object]:
  rule = fedfv.FedFvRule(alpha=0.1, tau=_ROUNDS_REMEMBERED)
  num_clients = workload.NUM_CLIENTS
  num_remembered = num_clients * _ROUNDS_REMEMBERED
  gram = tf.constant(_gram(num_clients + num_remembered))
  cohort = types.Cohort(
    client_id=tf.range(num_clients, dtype=tf.int64),
    weight=tf.fill([num_clients], tf.constant(1 / num_clients, tf.float64)),
    num_examples=tf.fill([num_clients], tf.constant(100.0, tf.float64)),
    loss=tf.linspace(tf.constant(0.1, tf.float64), 2.0, num_clients),
    squared_norm=tf.linalg.diag_part(gram)[:num_clients],
    gram=gram,
    remembered_id=tf.range(
      num_clients, num_clients + num_remembered, dtype=tf.int64
    ),
    remembered_age=tf.repeat(tf.range(1, _ROUNDS_REMEMBERED + 1), num_clients),
  )

  @tf.function
  def coefficients() -> Any:
    return rule.coefficients(cohort, rule.initialize()).coefficients

  return lambda: coefficients().numpy()


def _coefficients() -> str:
  model = workload.cnn()
  gram = tf.constant(_gram(_CLIENTS_OF_PROGRAM))
  num_clients = workload.NUM_CLIENTS
  rows, remembered = (
    tf.random.stateless_normal([num, _WEIGHTS_OF_CNN], [0, 1])
    for num in (num_clients, num_clients * _ROUNDS_REMEMBERED)
  )

  @tf.function
  def program(gram: tf.Tensor) -> tf.Tensor:
    # The box of epsilon = 0.01 around equal weights.
    return kernels.min_norm_point(gram, 0.0, 0.02).coefficients

  @tf.function
  def new_products() -> tf.Tensor:
    return kernels.inner_products([rows], [remembered])

  calls: _Calls = {
    "FedAvg round, CNN": workload.rounds(
      workload.process("fedavg", model), workload.client_data(model)
    ),
    "FedMGDA+, program, m = 100": lambda: program(gram).numpy(),
    "FedFV, rule, tau = 10": _fedfv_rule(),
    "FedFV, inner products": lambda: new_products().numpy(),
  }
  return measure.ratio_table(_in_turns(calls), "FedAvg round, CNN")


def _evaluation() -> str:
  model = workload.MODELS[_MODEL.value]()
  size = (_CLIENTS.value, _EXAMPLES.value)
  evaluate = tff_fair.evaluation.build_client_evaluation(model)
  weights = tff.learning.models.ModelWeights(*model.initial_weights)
  data = workload.client_data(model, *size)
  calls: _Calls = {
    workload.PLAIN: _plain_evaluation(
      model, workload.client_arrays(model, *size)
    ),
    "tff_fair": lambda: evaluate(weights, data),
  }
  return measure.ratio_table(_in_turns(calls), workload.PLAIN)


def _plain_evaluation(
  model: tff.learning.models.FunctionalModel,
  clients: list[workload.Arrays],
) -> Callable[[], object]:
  @tf.function
  def evaluate(weights: Any, x: tf.Tensor, y: tf.Tensor) -> Any:
    output = model.predict_on_batch((weights, ()), x, False)
    hits = tf.equal(tf.argmax(output, 1, tf.int32), y)
    return model.loss(output, y), tf.reduce_mean(tf.cast(hits, tf.float32))

  tensors = [(tf.constant(x), tf.constant(y)) for x, y in clients]
  weights = tuple(tf.constant(w) for w in model.initial_weights[0])
  return lambda: [
    [value.numpy() for value in evaluate(weights, x, y)] for x, y in tensors
  ]


def _state() -> str:
  state_type = tff.FederatedType(
    tff.StructType(
      [("weights", tff.TensorType(np.float32, [_WEIGHTS_OF_STATE]))]
    ),
    tff.SERVER,
  )
  generator = np.random.default_rng(0)
  state = {"weights": generator.random(_WEIGHTS_OF_STATE, np.float32)}

  @tff.tensorflow.computation(state_type.member)
  def same(state: Any) -> Any:
    return {"weights": tf.identity(state["weights"])}

  @tff.federated_computation(state_type)
  def there_and_back(state: tff.Value) -> tff.Value:
    return tff.federated_map(same, state)

  seconds: dict[str, list[float]] = {}
  # Not in turns: what the allocator is told lasts until the program ends.
  for keep_memory in (False, True):
    tff_fair.runtime.use_local(keep_memory=keep_memory)
    suffix = ", freed memory kept" if keep_memory else ""
    seconds |= _in_turns(
      {f"there and back{suffix}": lambda: there_and_back(state)}
    )
  return measure.ratio_table(seconds, "there and back")


_SHOWN = {
  "certificate": _certificate,
  "coefficients": _coefficients,
  "evaluation": _evaluation,
  "state": _state,
}


def main() -> None:
  """Prints a table for each step."""
  for name in _SHOW.value or _SHOWN:
    tff_fair.runtime.use_local()
    print(_SHOWN[name](), flush=True)


if __name__ == "__main__":
  measure.run(main)
