"""Computations and processes that tests of the runtime share."""

import functools

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tests import small_problem

ROW = tff.TensorType(np.float32, [3])


def summed(function: tff.Computation) -> tff.Computation:
  """Returns a computation of the sum of `function` over the clients' values."""

  @tff.federated_computation(
    tff.FederatedType(function.type_signature.parameter, tff.CLIENTS)
  )
  def sum_of_all(values):
    return tff.federated_sum(tff.federated_map(function, values))

  return sum_of_all


add_one = tff.tensorflow.computation(lambda x: x + 1.0, np.float32)
sum_of_successors = summed(add_one)


def slow(seconds: float, type_spec: object = np.float32) -> tff.Computation:
  """Returns a computation that returns its argument after `seconds`."""

  @tff.tensorflow.computation(type_spec)
  def same(x):
    start = tf.timestamp()
    return tf.while_loop(
      lambda _: tf.timestamp() - start < seconds,
      lambda y: (tf.identity(y),),
      (x,),
    )[0]

  return same


def rows(number: int) -> list[np.ndarray]:
  """Returns values whose sum depends on the order in which they are added."""
  random = np.random.default_rng(number)
  scales = 10.0 ** random.integers(-3, 4, size=(number, 1))
  return [*(random.normal(size=(number, 3)) * scales).astype(np.float32)]


@functools.cache
def process(name: str) -> tff.learning.templates.LearningProcess:
  """Returns the process of the method `name`, on the small problem."""
  return small_problem.process(name)
