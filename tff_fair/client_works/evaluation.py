"""Loss and accuracy of a model over a client's examples, in inference mode."""

from typing import Any, NamedTuple

import tensorflow as tf

from tff_fair.client_works import batches, local_model
from tff_fair.client_works import tally as tallies

# Large enough for one pass over most clients' examples, small enough for the
# activations of a convolutional network.
EVALUATION_BATCH_SIZE = 512


class Evaluation(NamedTuple):
  """A model on a client's examples.

  Attributes:
    client_id: int64[]; 0 without examples.
    num_examples: int64[].
    loss: float32[], mean over examples; 0 without examples.
    accuracy: float32[], see `tally.accuracy`; NaN where there is no such thing.
  """

  client_id: Any
  num_examples: Any
  loss: Any
  accuracy: Any


def evaluate(
  model: local_model.LocalModel,
  trainable: Any,
  data: tf.data.Dataset,
  batch_size: int | None,
) -> Evaluation:
  """Evaluates a model; to be called inside a `tf.function`.

  Args:
    model: The model, which has received its weights.
    trainable: Its trainable weights, a flat tuple.
    data: Elements `(client_id, examples)`.
    batch_size: The most examples in one forward pass; `None` takes an element
      as it is.
  """

  def step(tally: tallies.Tally, batch: Any) -> tallies.Tally:
    output = model.forward(trainable, tally.metrics, batch, training=False)
    return tallies.add(tally, batch, output)

  def over_element(carry: Any, element: Any) -> Any:
    _, tally = carry
    client_id, examples = element
    return client_id, batches.reduce_slices(examples, batch_size, tally, step)

  client_id, tally = batches.reduce_elements(
    data, (tf.zeros([], tf.int64), tallies.start(model)), over_element
  )
  return Evaluation(
    client_id,
    tally.num_examples,
    tallies.mean_loss(tally),
    tallies.accuracy(model, tally),
  )
