"""Tests of models that predict a number."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tasks import models, task
from tff_fair.client_works import local_model
from tff_fair.client_works import tally as tallies

_X = np.array([[1.0, 2.0], [3.0, -4.0], [0.0, 5.0]], np.float32)
_Y = np.array([1.5, -2.0, 1e4], np.float32)
_SPEC = task.element_spec([2], y_dtype="float32")
_build = functools.partial(models.mlp, (2,), (), 1, 0)
_OBJECTIVE = models.number_objective()


def _other() -> tf.keras.Model:
  return tf.keras.Sequential(
    [*_build().layers, tf.keras.layers.Activation("linear")]
  )


def _forms() -> dict[str, local_model.ModelFn]:
  functional = _OBJECTIVE.functional_model_fn(_build, _SPEC)()
  assert isinstance(functional, tff.learning.models.FunctionalModel)
  return {
    "keras": _OBJECTIVE.model_fn(_build, _SPEC),
    "functional": functional,
  }


@pytest.mark.parametrize("form", ["keras", "functional"])
def test_loss_and_gradient_are_those_of_the_mean_squared_error(
  form: str,
) -> None:
  model_fn = _forms()[form]
  kernel, bias = np.array([[2.0], [-1.0]]), np.array([0.5])

  @tff.tensorflow.computation
  def loss_and_gradients() -> tuple[tf.Tensor, ...]:
    model = local_model.instantiate(model_fn)
    trainable = [tf.constant(kernel, tf.float32), tf.constant(bias, tf.float32)]

    @tf.function
    def run() -> tuple[tf.Tensor, ...]:
      model.receive(tff.learning.models.ModelWeights(trainable, []))
      gradients, output = model.gradients(
        local_model.flat(trainable),
        tallies.start(model).metrics,
        (tf.constant(_X), tf.constant(_Y)),
        training=True,
      )
      return output.loss, *gradients

    return run()

  loss, of_kernel, of_bias = loss_and_gradients()
  errors = _X.astype(np.float64) @ kernel[:, 0] + bias - _Y
  np.testing.assert_allclose(loss, np.mean(errors**2), rtol=1e-6)
  np.testing.assert_allclose(of_kernel[:, 0], 2 * _X.T @ errors / 3, rtol=1e-5)
  np.testing.assert_allclose(of_bias, [2 * errors.mean()], rtol=1e-5)


def test_both_forms_have_the_same_metrics() -> None:
  keras = _OBJECTIVE.model_fn(_build, _SPEC)()
  functional = _OBJECTIVE.functional_model_fn(_build, _SPEC)()
  assert functional is not None
  assert list(keras.metric_finalizers()) == list(
    functional.initialize_metrics_state()
  )
  outputs = []
  for places in ([0, 1], [2]):  # Batches of unequal sizes.
    output = keras.forward_pass((_X[places], _Y[places]), training=False)
    outputs += output.predictions[:, 0].numpy().tolist()
  metrics = keras.report_local_unfinalized_metrics()
  total, count = metrics["mean_absolute_error"]
  np.testing.assert_allclose(total, np.abs(outputs - _Y).sum(), rtol=1e-6)
  assert count == 3


def test_another_network_than_a_dense_one_has_no_functional_form() -> None:
  assert _OBJECTIVE.functional_model_fn(_other, _SPEC)() is None
