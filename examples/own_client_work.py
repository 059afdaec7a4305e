"""Custom client work: clients report losses on held-out examples to TERM.

Each client holds a fifth of its examples out and reports its loss on them. TERM
then gives larger weights to clients for which the model does badly on these.
"""

import tff_fair  # First: this silences TensorFlow's hardware messages.
import tasks
import tensorflow as tf
import tensorflow_federated as tff

tff_fair.runtime.use_local()  # Computes in this program.
task = tasks.load("digits")
clients = [tff_fair.client_dataset(k, task.train_data(k)) for k in range(30)]
weights_type = tff.learning.models.weights_type_from_model(task.model_fn)
data_type = tff.types.tensorflow_to_type(clients[0].element_spec)


@tff.tensorflow.computation(weights_type, tff.SequenceType(data_type))
def work(received, data):
  """Returns the update and the signals of one client in a round."""
  model = task.model_fn()

  @tf.function
  def train(received, data):
    weights = tff.learning.models.ModelWeights.from_model(model)
    tf.nest.map_structure(lambda v, w: v.assign(w), weights, received)
    client_id, (x, y) = data.get_single_element()
    n = len(y) // 5
    signals = dict.fromkeys(tff_fair.ClientSignals._fields, 0.0)
    signals["client_id"] = client_id
    signals["num_examples"] = tf.cast(len(y) - n, tf.float32)
    signals["loss"] = model.forward_pass((x[:n], y[:n]), training=False).loss
    for _ in tf.range(5):
      with tf.GradientTape() as tape:
        loss = model.forward_pass((x[n:], y[n:])).loss
      gradients = tape.gradient(loss, weights.trainable)
      for variable, gradient in zip(weights.trainable, gradients, strict=True):
        variable.assign_sub(0.2 * gradient)
    update = tf.nest.map_structure(tf.subtract, received[0], weights[0])
    return tff.learning.templates.ClientResult(
      update, tff_fair.ClientSignals(**signals)
    )

  return train(received, data)


client_work = tff_fair.client_works.build_from_computation(work)
evaluate = tff_fair.evaluation.build_client_evaluation(task.model_fn)
test = [tff_fair.client_dataset(k, task.test_data(k)) for k in range(30)]
for t in (0.0, 2.0):  # 0 is federated averaging.
  process = tff_fair.rounds.compose_client_work(
    task.model_fn, client_work, tff_fair.aggregators.TermFactory(t=t)
  )
  state = process.initialize()
  for _ in range(30):
    state = process.next(state, clients).state
  rows = evaluate(state.global_model_weights, test)
  found = tff_fair.metrics.fairness_summary(rows["accuracy"])
  print(f"t={t}: mean {found['mean']:.1%}, worst 10% {found['worst_10']:.1%}")
