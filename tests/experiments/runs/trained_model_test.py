"""Tests of how a run finds its Keras model; its weights: running_test."""

import numpy as np
import pytest
import tensorflow as tf

import tasks
from tff_fair.experiments.runs import trained_model


@pytest.mark.parametrize(
  ("name", "options"),
  [
    ("digits", {}),
    ("synthetic", {}),
    ("emnist_character", {"synthetic": True}),
    ("shakespeare_character", {"synthetic": True}),
    ("stackoverflow_word", {"synthetic": True}),
    ("stackoverflow_tag", {"synthetic": True}),
  ],
)
def test_each_kind_of_task_has_a_keras_model(name, options):
  task = tasks.load(name, **options)
  found = trained_model._new_keras_model(task)
  assert isinstance(found, tf.keras.Model)
  wrapped = task.model_fn()
  for one, other in (
    (found.trainable_variables, wrapped.trainable_variables),
    (found.non_trainable_variables, wrapped.non_trainable_variables),
  ):
    for variable, twin in zip(one, other, strict=True):
      np.testing.assert_array_equal(variable, twin)
