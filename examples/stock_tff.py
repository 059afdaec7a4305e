"""A fair aggregation factory in a script of plain TensorFlow Federated.

Only `model_aggregator` differs from federated averaging. Ten clients have two
digits each; some have four and eight times as many images as others. In this
example, equal weights help the small clients more than FedMGDA+ does.

    python examples/stock_tff.py
"""

import tff_fair  # First: this silences TensorFlow's hardware messages.
import numpy as np
import sklearn.datasets
import tensorflow as tf
import tensorflow_federated as tff

tff_fair.runtime.use_local()  # TFF's default is a process that opens a port.

x, y = sklearn.datasets.load_digits(return_X_y=True)
x, y = np.float32(x / 16), np.int32(y)
data = []
for k in range(10):
  rows = np.flatnonzero(np.isin(y, [k, (k + 1) % 10]))[: 180 >> (k // 3)]
  images = tf.data.Dataset.from_tensor_slices((x[rows], y[rows]))
  data.append(images.batch(20))


def model_fn() -> tff.learning.models.VariableModel:
  """Returns a new softmax regression."""
  return tff.learning.models.from_keras_model(
    tf.keras.Sequential([tf.keras.layers.Dense(10, input_shape=(64,))]),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    input_spec=data[0].element_spec,
    metrics=[tf.keras.metrics.SparseCategoricalAccuracy()],
  )


# An evaluation of each client needs the clients' ids.
clients = [tff_fair.client_dataset(k, images) for k, images in enumerate(data)]
evaluate = tff_fair.evaluation.build_client_evaluation(model_fn)
fed_avg = tff_fair.aggregators.FedAvgFactory()
fed_mgda_plus = tff_fair.aggregators.FedMgdaPlusFactory(epsilon=1.0)
# Each method's rate is its best of 0.05, 0.2, 0.5 and 1, by mean accuracy.
for name, factory, weights, rate in (
  ("FedAvg", fed_avg, "NUM_EXAMPLES", 1.0),
  ("FedAvg, equal weights", fed_avg, "UNIFORM", 0.5),
  ("FedMGDA+", fed_mgda_plus, "NUM_EXAMPLES", 0.2),
):
  process = tff.learning.algorithms.build_weighted_fed_avg(
    model_fn,
    client_optimizer_fn=tff.learning.optimizers.build_sgdm(rate),
    client_weighting=tff.learning.ClientWeighting[weights],
    model_aggregator=factory,
  )
  state = process.initialize()
  for _ in range(20):
    state = process.next(state, data).state
  accuracy = evaluate(state.global_model_weights, clients)["accuracy"]
  found = tff_fair.metrics.fairness_summary(accuracy)
  print(f"{name}: mean {found['mean']:.1%}, worst client {found['min']:.1%}")
