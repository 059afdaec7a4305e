"""Client work: trains the received model and reports signals beside the update.

  Delta_k = theta - theta_k
  f_k, a_k: loss and accuracy of theta over the local examples, before training
"""

import collections
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import checks
from tff_fair import types
from tff_fair.client_works import batches
from tff_fair.client_works import evaluation
from tff_fair.client_works import local_model
from tff_fair.client_works import tally as tallies

LOSS_AT = ("before", "training")


class _Progress(NamedTuple):
  """What local training carries from step to step."""

  trainable: Any
  optimizer: Any
  tally: tallies.Tally
  client_id: Any
  num_steps: Any
  num_elements: Any


def build_training(
  model_fn: local_model.ModelFn,
  optimizer: tff.learning.optimizers.Optimizer,
  *,
  batch_size: int | None = None,
  local_epochs: int = 1,
  loss_at: str = "before",
  shuffle_seed: int | None = None,
  proximal_mu: float = 0.0,
) -> tff.learning.templates.ClientWorkProcess:
  """Builds the client work of every method that trains one model per client.

  Args:
    model_fn: Function that returns a new `tff.learning.models.VariableModel`,
      or a `tff.learning.models.FunctionalModel`.
    optimizer: The client optimizer, started anew each round.
    batch_size: Examples in a minibatch: each element of a client's data is
      sliced. `None` takes each element as one minibatch.
    local_epochs: How often a client runs over its data.
    loss_at: Where f_k is taken: "before" training, in a pass of its own in
      inference mode, or "training", the mean over the local steps.
    shuffle_seed: With `batch_size`: shuffles the examples of each element anew
      for each round and epoch, by this seed and the client's id. `None` keeps
      their order.
    proximal_mu: Weight of the proximal term mu/2 ||w - theta||^2 that is added
      to the local loss (FedProx); 0 adds none. Signals leave it out.

  Returns:
    A process whose `next` has the type (<S@SERVER, W@CLIENTS, {<int64, B>*}
    @CLIENTS> -> <state=S@SERVER, result=ClientResult(W.trainable,
    ClientSignals)@CLIENTS, measurements=<train=M>@SERVER>). A client whose
    update or loss is not finite, or that has no examples, reports
    `num_examples` 0. S holds the optimizer's hyperparameters, which are those
    of the process, and the number of rounds in which any client counted.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If an argument is out of range.
  """
  if not isinstance(optimizer, tff.learning.optimizers.Optimizer):
    raise TypeError(
      "Expected `client_optimizer` to be a tff.learning.optimizers.Optimizer, "
      f"found {type(optimizer).__name__}. Build one with "
      "tff.learning.optimizers.build_sgdm(learning_rate)."
    )
  if batch_size is not None:
    checks.check_integer("batch_size", batch_size, minimum=1)
  checks.check_integer("local_epochs", local_epochs, minimum=1)
  checks.check_choice("loss_at", loss_at, LOSS_AT)
  checks.check_number("proximal_mu", proximal_mu, minimum=0)
  if shuffle_seed is not None:
    checks.check_integer("shuffle_seed", shuffle_seed, minimum=0)
    if batch_size is None:
      raise ValueError(
        "A shuffle_seed needs a batch_size: without one, each element of a "
        "client's data is a minibatch already. Shuffle the dataset instead."
      )
  info = local_model.describe(model_fn)
  data_type = batches.data_type(info.batch_spec)

  @tff.tensorflow.computation
  def initial_state() -> Any:
    specs = tf.TensorSpec([], tf.float32)
    return collections.OrderedDict(
      optimizer=optimizer.get_hparams(optimizer.initialize(specs)),
      round_num=tf.constant(0, tf.int64),
    )

  state_type = initial_state.type_signature.result

  @tff.tensorflow.computation(state_type)
  def get_hparams(state: Any) -> Any:
    return state["optimizer"]

  @tff.tensorflow.computation(state_type, state_type["optimizer"])
  def set_hparams(state: Any, hparams: Any) -> Any:
    return collections.OrderedDict(
      optimizer=hparams, round_num=state["round_num"]
    )

  @tff.tensorflow.computation(state_type, tff.types.tensorflow_to_type(tf.int32))
  def next_state(state: Any, num_counted: Any) -> Any:
    return collections.OrderedDict(
      optimizer=state["optimizer"],
      round_num=state["round_num"] + tf.cast(num_counted > 0, tf.int64),
    )

  @tff.tensorflow.computation(state_type, info.weights_type, data_type)
  def work(state: Any, weights: Any, data: Any) -> Any:
    model = local_model.instantiate(model_fn)

    @tf.function
    def run(state: Any, weights: Any, data: tf.data.Dataset) -> Any:
      model.receive(weights)
      received = local_model.flat(weights.trainable)
      before = None
      if loss_at == "before":
        before = evaluation.evaluate(
          model,
          received,
          data,
          batch_size and evaluation.EVALUATION_BATCH_SIZE,
        )

      def element_order(client_id: Any, size: Any, epoch: Any) -> Any:
        if shuffle_seed is None:
          return None
        return batches.shuffled(
          size, shuffle_seed, client_id, state["round_num"], epoch
        )

      trained = _train(
        model,
        optimizer,
        state["optimizer"],
        received,
        data.repeat(local_epochs),
        batch_size,
        element_order,
        proximal_mu,
      )
      update = tf.nest.pack_sequence_as(
        weights.trainable,
        [w - v for w, v in zip(received, trained.trainable, strict=True)],
      )
      return _report(
        model, state["optimizer"], update, trained, before, local_epochs
      )

    return run(state, weights, data)

  @tff.federated_computation
  def initialize() -> Any:
    return tff.federated_eval(initial_state, tff.SERVER)

  @tff.federated_computation(
    initialize.type_signature.result,
    tff.FederatedType(info.weights_type, tff.CLIENTS),
    tff.FederatedType(data_type, tff.CLIENTS),
  )
  def next_fn(state: Any, weights: Any, data: Any) -> Any:
    result, metrics, counted = tff.federated_map(
      work, (tff.federated_broadcast(state), weights, data)
    )
    new_state = tff.federated_map(
      next_state, (state, tff.federated_sum(counted))
    )
    measurements = collections.OrderedDict(
      train=info.aggregate_metrics(metrics)
    )
    return tff.templates.MeasuredProcessOutput(
      new_state, result, tff.federated_zip(measurements)
    )

  return tff.learning.templates.ClientWorkProcess(
    initialize, next_fn, get_hparams_fn=get_hparams, set_hparams_fn=set_hparams
  )


def _train(
  model: local_model.LocalModel,
  optimizer: tff.learning.optimizers.Optimizer,
  hparams: Any,
  trainable: Any,
  data: tf.data.Dataset,
  batch_size: int | None,
  element_order: Callable[[Any, Any, Any], Any],
  proximal_mu: float,
) -> _Progress:
  """Takes one optimizer step per minibatch, over all epochs."""
  specs = tf.nest.map_structure(
    lambda weight: tf.TensorSpec(weight.shape, weight.dtype), trainable
  )
  zero = tf.zeros([], tf.int64)
  start = _Progress(
    trainable,
    optimizer.set_hparams(optimizer.initialize(specs), hparams),
    tallies.start(model),
    client_id=zero,
    num_steps=zero,
    num_elements=zero,
  )

  def step(progress: _Progress, batch: Any) -> _Progress:
    gradients, output = model.gradients(
      progress.trainable, progress.tally.metrics, batch
    )
    if proximal_mu:
      gradients = tf.nest.map_structure(
        lambda g, w, theta: proximal_mu * (w - theta) + (0 if g is None else g),
        tff.learning.optimizers.handle_indexed_slices_gradients(gradients),
        progress.trainable,
        trainable,
      )
    optimizer_state, new_trainable = optimizer.next(
      progress.optimizer, progress.trainable, gradients
    )
    return progress._replace(
      trainable=new_trainable,
      optimizer=optimizer_state,
      tally=tallies.add(progress.tally, batch, output),
      num_steps=progress.num_steps + 1,
    )

  def over_element(progress: _Progress, element: Any) -> _Progress:
    client_id, examples = element
    progress = progress._replace(
      client_id=client_id, num_elements=progress.num_elements + 1
    )
    order = element_order(
      client_id, batches.num_examples(examples), progress.num_elements
    )
    return batches.reduce_slices(examples, batch_size, progress, step, order)

  return data.reduce(start, over_element)


def _report(
  model: local_model.LocalModel,
  hparams: Any,
  update: Any,
  trained: _Progress,
  before: evaluation.Evaluation | None,
  local_epochs: int,
) -> tuple[Any, Any, tf.Tensor]:
  """Returns the client's result, its metrics, and whether it counts (int32)."""
  if before is None:
    loss = tallies.mean_loss(trained.tally)
    accuracy = tallies.accuracy(model, trained.tally)
  else:
    loss, accuracy = before.loss, before.accuracy
  num_examples = trained.tally.num_examples // local_epochs
  counts = tf.reduce_all(
    tf.stack([
      num_examples > 0,
      tf.math.is_finite(loss),
      *(
        tf.reduce_all(tf.math.is_finite(layer))
        for layer in tf.nest.flatten(update)
      ),
    ])
  )
  # The metrics of a client that does not count would poison those of the round.
  metrics = tf.cond(
    counts,
    lambda: model.unfinalized_metrics(trained.tally.metrics),
    lambda: model.unfinalized_metrics(model.empty_metrics()),
  )
  signals = types.ClientSignals(
    client_id=trained.client_id,
    num_examples=tf.where(counts, tf.cast(num_examples, tf.float32), 0.0),
    loss=loss,
    accuracy=tf.where(tf.math.is_nan(accuracy), 0.0, accuracy),
    num_steps=tf.cast(trained.num_steps, tf.float32),
    learning_rate=tf.cast(
      hparams.get(tff.learning.optimizers.LEARNING_RATE_KEY, 0.0), tf.float32
    ),
  )
  result = tff.learning.templates.ClientResult(update, signals)
  return result, metrics, tf.cast(counts, tf.int32)
