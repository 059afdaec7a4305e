"""A fair method on your own client data, in your own training loop.

Three hospitals measure the same five values. The third has few patients, and a
device that shows larger numbers.

    python examples/own_data.py
"""

import tff_fair  # First: this silences TensorFlow's hardware messages.
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

tff_fair.runtime.use_local()  # Computes in this program.

generator = np.random.default_rng(0)
arrays = {}
for name, patients, shift in (("A", 400, 0.0), ("B", 300, 0.2), ("C", 40, 1.5)):
  x = generator.normal(size=(patients, 5))
  y = x @ [1, -1, 1, 0, 0] > 0
  arrays[name] = {"x": np.float32(x + shift), "y": np.int32(y)}
hospitals = tff.simulation.datasets.TestClientData(arrays)

# A client is a fixed number, and a dataset whose one element has all examples.
clients = []
for k, name in enumerate(hospitals.client_ids):
  examples = hospitals.create_tf_dataset_for_client(name).batch(1000)
  clients.append(tff_fair.client_dataset(k, examples))


def model_fn() -> tff.learning.models.VariableModel:
  """Returns a new logistic regression."""
  return tff.learning.models.from_keras_model(
    tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(5,))]),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    input_spec=clients[0].element_spec[1],
  )


evaluate = tff_fair.evaluation.build_client_evaluation(model_fn)
# The methods have the same order by C's accuracy at all rates from 0.05 to 1.
for method, weighting, hparams in (
  ("fedavg", "num_examples", {}),
  ("fedavg", "uniform", {}),
  ("fedmgda_plus", "uniform", {"epsilon": 1.0}),
):
  process = tff_fair.algorithms.build(
    method,
    model_fn,
    client_optimizer=tff.learning.optimizers.build_sgdm(0.1),
    client_weighting=weighting,
    hparams=hparams,
    batch_size=20,
  )
  state = process.initialize()
  for _ in range(20):
    state = process.next(state, clients).state
  accuracy = evaluate(state.global_model_weights, clients)["accuracy"]
  found = zip(hospitals.client_ids, accuracy, strict=True)
  print(f"{method}, {weighting}:", *(f"{name} {a:.1%}" for name, a in found))
