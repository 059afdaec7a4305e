"""Tests that AutoGraph lets the user's functions branch over tensors."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import reference, small_problem
from tests.client_works import local_work
from tff_fair import client_works
from tff_fair.client_works import tracing

MODEL = small_problem.functional_model()
THETA = reference.initial_theta()


class BranchingModel(tff.learning.models.VariableModel):
  """The small problem's model, whose `forward_pass` branches over a tensor."""

  def __init__(self):
    kernel, bias = small_problem.initial_weights()
    self._weights = [tf.Variable(kernel), tf.Variable(bias)]
    self._num_examples = tf.Variable(0.0, trainable=False)

  @property
  def trainable_variables(self):
    return self._weights

  @property
  def non_trainable_variables(self):
    return []

  @property
  def local_variables(self):
    return [self._num_examples]

  @property
  def input_spec(self):
    return small_problem.INPUT_SPEC

  def predict_on_batch(self, x, training=True):
    del training
    return x @ self._weights[0] + self._weights[1]

  def forward_pass(self, batch_input, training=True):
    x, y = batch_input
    predictions = self.predict_on_batch(x, training)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, predictions)
    loss = tf.reduce_mean(losses) if tf.shape(y)[0] > 0 else 0.0
    return tff.learning.models.BatchOutput(
      loss, predictions, tf.shape(y, out_type=tf.int64)[0]
    )

  def report_local_unfinalized_metrics(self):
    return collections.OrderedDict(n=self._num_examples)

  def metric_finalizers(self):
    return collections.OrderedDict(n=tf.function(lambda n: n))

  def reset_metrics(self):
    self._num_examples.assign(0.0)


def branching_loss(output, label, sample_weight=None):
  del sample_weight
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(label, output)
  if tf.size(losses) > 0:
    return tf.reduce_mean(losses)
  return 0.0


def branching_objective(loss):
  if loss > 1e6:
    return tf.zeros_like(loss)
  return loss


class BranchingOptimizer(tff.learning.optimizers.Optimizer):
  """SGD that stops at a gradient that is not finite."""

  def initialize(self, specs):
    del specs
    return collections.OrderedDict()

  def next(self, state, weights, gradients):
    if tf.math.is_finite(tf.linalg.global_norm(gradients)):
      rate = small_problem.LEARNING_RATE
    else:
      rate = 0.0
    return state, tf.nest.map_structure(
      lambda w, g: w - rate * g, weights, gradients
    )


def run(model_fn, optimizer=None, **settings):
  process = client_works.build_training(
    model_fn,
    optimizer or small_problem.optimizer(),
    client_works.TrainingSettings(batch_size=4, **settings),
  )
  return local_work.run_one(process, small_problem.whole(31))[0]


@pytest.mark.parametrize(
  "arguments",
  [
    {"model_fn": BranchingModel},
    {"model_fn": small_problem.functional_model({}, loss_fn=branching_loss)},
    {"optimizer": BranchingOptimizer()},
    {"objective": branching_objective},
  ],
  ids=["forward_pass", "loss", "optimizer", "objective"],
)
def test_functions_of_the_user_branch_over_tensors(arguments):
  arguments = {"model_fn": MODEL, **arguments}
  wanted = reference.run_client(THETA, 31).update
  np.testing.assert_allclose(run(**arguments), wanted, atol=1e-6)


def test_functions_of_ours_are_not_converted():
  with pytest.raises(TypeError, match="bool"):
    tracing.graph_function(branching_objective)(tf.constant(1.0))


def test_a_graph_function_stays_as_it_is():
  function = tf.function(lambda x: x)
  assert tracing.with_autograph(function) is function
  assert tracing.with_autograph(tracing.with_autograph) is (
    tracing.with_autograph
  )
  assert tracing.with_autograph(branching_objective)(tf.constant(2.0)) == 2
