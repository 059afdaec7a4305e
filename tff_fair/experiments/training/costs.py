"""Computes a round's costs for clients: bytes down and up, local operations.

The costs are those of the method, not of how this implementation moves data:
weights and scalars count with the sizes of their types, without compression or
protocol. The costs leave out the clients' metrics, which are for monitoring,
and what clients store locally, such as personal models and momentum. With
SCAFFOLD, clients also receive the server's control variate, and send the change
in their own.

Local operations are multiply-accumulates of the model. A step of training
counts as three forward passes, as is usual: for each product of the forward
pass, the backward pass has two, for gradients of weights and of inputs.
"""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow.python.framework import op_callbacks

import tasks
from tasks.models import initial_weights
from tff_fair import client_works, methods, summing
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.training import (
  learning_process,
  plan,
  rounds,
  sampling,
)
from tff_fair.runtime import compilation_cache
from tff_fair.types import ClientSignals, ComparingRule, SeparableRule

_TRAINING_PASS = 3  # The cost of a training step, in forward passes.
_SIGNALS = ClientSignals(
  tf.int64, *[tf.float32] * (len(ClientSignals._fields) - 1)
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClientCosts:
  """The costs of a round for one client, some of them per example."""

  bytes_down: int
  bytes_up: int  # Sent only if the client reports back.
  training_operations: int  # For each example in each epoch.
  extra_operations: int  # For each example, once per round.
  bytes_down_later: int = 0  # After local training, if the client reports back.
  # After local training, to be multiplied by the number of reporting clients.
  bytes_down_per_client: int = 0


def build_round_costs(
  spec: RunSpec,
  task: tasks.Task,
  process: tff.learning.templates.LearningProcess,
  aggregation: str,
  cache: compilation_cache.CompilationCache,
) -> Callable[[rounds.State, sampling.DrawnCohort], Mapping[str, int]]:
  """Returns a function from a state and a cohort to the costs of a round."""
  costs = per_client(spec, task, process, aggregation, cache)
  training = client_works.TrainingSettings(**spec.local_work)

  def of_this_round(
    state: rounds.State, cohort: sampling.DrawnCohort
  ) -> Mapping[str, int]:
    client_work = state.client_work
    # If clients keep a state, `client_work` has several parts.
    round_num = client_work.get("training", client_work)["round_num"]
    num_examples = task.train.num_examples[cohort.reporting]
    trained = [
      client_works.num_trained_examples(training, int(n), k, round_num)
      for n, k in zip(num_examples, cohort.reporting, strict=True)
    ]
    return round_total(costs, cohort, num_examples, np.array(trained, np.int64))

  return of_this_round


def per_client(
  spec: RunSpec,
  task: tasks.Task,
  process: tff.learning.templates.LearningProcess,
  aggregation: str,
  cache: compilation_cache.CompilationCache = compilation_cache.NO_CACHE,
) -> ClientCosts:
  """Returns the costs of one client in a round of the run."""
  state_type = process.initialize.type_signature.result.member
  weights_type = state_type.global_model_weights
  # A distributor stores weights only for a method that compares losses with
  # those of the initial model. Such a method also measures gradients.
  with_initial_weights = hasattr(state_type.distributor, "weights")
  with_personal_model = learning_process.has_personal_models(process)
  of_any_seed = initial_weights.with_seed_0(task)
  per_example = cache.number(
    ("multiply_accumulates", of_any_seed.model_parts),
    lambda: multiply_accumulates(of_any_seed),
  )
  besides = per_example * (spec.loss_at != "training")
  if with_initial_weights:
    # The pass for the gradient also measures the loss before training.
    besides = per_example * (1 + _TRAINING_PASS + (spec.loss_at == "after"))
  if spec.algorithm in (plan.FEDMINMAX, plan.FAIRFED):
    besides += per_example  # A pass to measure the groups' losses or gaps.
  of_update = _num_bytes(weights_type.trainable)
  of_control = of_update * spec.corrects_steps
  num_trials = _num_trials(spec)
  searches = num_trials > 0
  return ClientCosts(
    bytes_down=_num_bytes(weights_type) * (1 + with_initial_weights)
    + of_control,
    # For a line search, a client receives the direction and the server's rate,
    # and returns its id and a loss for each step size.
    bytes_down_later=(of_update + tf.float32.size) * searches,
    bytes_up=of_update * _num_sums(spec, aggregation)
    + of_control
    + sum(dtype.size for dtype in _SIGNALS)
    + tf.int64.size * searches
    + tf.float32.size * num_trials,
    training_operations=_TRAINING_PASS
    * per_example
    * (1 + with_personal_model),
    extra_operations=besides + per_example * num_trials,
    # Clients receive all ids and coefficients; each selects its coefficient.
    bytes_down_per_client=(tf.int64.size + tf.float64.size)
    * (aggregation == summing.TWO_PHASE),
  )


def _num_sums(spec: RunSpec, aggregation: str) -> int:
  """Returns how many times a client sends its update, once for each sum."""
  rule = methods.get(spec.algorithm).build.rule
  if aggregation != summing.SECURE or spec.dp_noise is not None:
    return 1
  if issubclass(rule, ComparingRule):
    return rule.num_factors
  has_two = issubclass(rule, SeparableRule) and rule.has_covariate()
  return 2 if has_two else 1


def _num_trials(spec: RunSpec) -> int:
  """Returns the number of step sizes that a client tries in a line search."""
  steps = spec.all_hparams.get("line_search")
  return 2 * steps + 1 if isinstance(steps, int) and steps > 0 else 0


def round_total(
  costs: ClientCosts,
  cohort: sampling.DrawnCohort,
  num_examples: np.ndarray,
  trained_examples: np.ndarray,
) -> Mapping[str, int]:
  """Returns the costs of a round for all clients together."""
  num_clients = len(cohort.reporting)
  return {
    "num_clients": num_clients,
    "bytes_down": len(cohort.drawn) * costs.bytes_down
    + num_clients * costs.bytes_down_later
    + num_clients**2 * costs.bytes_down_per_client,
    "bytes_up": num_clients * costs.bytes_up,
    "local_operations": sum(
      n * costs.extra_operations + trained * costs.training_operations
      for n, trained in zip(
        num_examples.tolist(), trained_examples.tolist(), strict=True
      )
    ),
  }


def _num_bytes(weights_type: tff.Type) -> int:
  specs = tf.nest.flatten(tff.types.type_to_tf_tensor_specs(weights_type))
  return sum(math.prod(spec.shape) * spec.dtype.size for spec in specs)


# The types of TensorFlow's operations that are counted.
_CONVOLUTIONS = ("Conv2D", "Conv3D")
_TRANSPOSED_CONVOLUTIONS = ("Conv2DBackpropInput", "Conv3DBackpropInputV2")
_DEPTHWISE, _EINSUM = "DepthwiseConv2dNative", "Einsum"
_PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
# The assumed size of dimensions that vary between examples.
_LEAST_LENGTH = 1


def multiply_accumulates(task: tasks.Task) -> int:
  """Returns the multiply-accumulates of a forward pass of one example.

  They are counted while an example passes through the model: users may define
  layers, and a graph does not show how often its loops run. Elementwise
  operations, such as activations, are not counted.
  """
  example = tuple(
    tf.zeros(
      [1, *(size or _LEAST_LENGTH for size in spec.shape[1:])], spec.dtype
    )
    for spec in task.element_spec
  )
  total = 0

  def watch(
    op_type: object,
    inputs: Sequence[tf.Tensor],
    attrs: Sequence[Any],
    outputs: Sequence[tf.Tensor],
    *unused: object,
  ) -> Sequence[tf.Tensor]:
    nonlocal total
    del unused
    total += _count_products(str(op_type), inputs, attrs, outputs)
    return outputs

  with _run_eagerly():
    model = task.model_fn()
    op_callbacks.add_op_callback(watch)
    try:
      model.forward_pass(example, training=False)
    finally:
      op_callbacks.remove_op_callback(watch)
  return total


@contextlib.contextmanager
def _run_eagerly() -> Iterator[None]:
  before = tf.config.functions_run_eagerly()
  tf.config.run_functions_eagerly(True)
  try:
    yield
  finally:
    tf.config.run_functions_eagerly(before)


def _count_products(
  op_type: str,
  inputs: Sequence[tf.Tensor],
  attrs: Sequence[Any],
  outputs: Sequence[tf.Tensor],
) -> int:
  """Returns an operation's number of multiply-accumulates."""
  if op_type in _PRODUCTS:
    # The shapes are [..., a, b] and [..., b, c], perhaps transposed, so a b c
    # is the square root of (a b) (b c) (a c).
    first, second, result = (
      math.prod(x.shape[-2:]) for x in (*inputs[:2], outputs[0])
    )
    num_products = math.prod(outputs[0].shape[:-2])
    return num_products * math.isqrt(first * second * result)
  if op_type in _CONVOLUTIONS:
    return math.prod(outputs[0].shape) * math.prod(inputs[1].shape[:-1])
  if op_type in _TRANSPOSED_CONVOLUTIONS:
    return math.prod(inputs[2].shape) * math.prod(inputs[1].shape[:-1])
  if op_type == _DEPTHWISE:
    return math.prod(outputs[0].shape) * math.prod(inputs[1].shape[:-2])
  if op_type == _EINSUM and len(inputs) == 2:
    equation = attrs[attrs.index("equation") + 1]
    return math.prod(outputs[0].shape) * _num_terms(equation, inputs[0].shape)
  return 0


def _num_terms(equation: str, shape: Sequence[int]) -> int:
  """Returns the number of products in each sum: b's size for "ab,bc->ac"."""
  first, second, result = equation.replace("->", ",").split(",")
  front, _, back = first.partition("...")
  sizes = dict(zip(front, shape, strict=False))
  sizes |= zip(reversed(back), reversed(shape), strict=False)
  summed = sizes.keys() & {*second} - {*result}
  return math.prod(sizes[label] for label in summed)
