"""Builds the client work of training: clients report an update and signals.

Delta_k = theta - theta_k
f_k, a_k: loss and accuracy of theta over the local examples, before training

Client work may be split into two phases: first, all clients measure their
signals, and the server collects the whole cohort's signals; then all clients
train.

The metrics of the training may be added by a secure sum. Secure sums add
integers. So a client's floats are clipped to [-2^20, 2^20) and rounded to
multiples of 2^-11, which keeps whole numbers exact; integers are clipped to
[0, 2^20]. For metrics, which are only displayed, this is enough. Sums that
update the state of the training, such as FedMinMax's sums by group, are clipped
and rounded, too.
"""

import collections
import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared, types
from tff_fair.client_works import (
  batches,
  client_round,
  group_weights,
  local_model,
  training_settings,
)
from tff_fair.kernels import stacking
from tff_fair.privacy import unused_assertions

BOUND = 2**20
_STEP = 2.0**-11
# TFF's secure sum has 2^32 - 1 steps between the bounds.
_FLOATS = (-float(BOUND), -float(BOUND) + (2**32 - 1) * _STEP)
_INTEGERS = (0, BOUND)

SNAPSHOT = "snapshot"  # The snapshot's name in the state and in clients' sums.

# Signals that only training measures.
_TRAINING_ONLY_SIGNALS = frozenset(["effective_steps"])


class TrainingPhases(NamedTuple):
  """The two phases of a round's client work.

  Attributes:
    measure: A computation of the type (<S@SERVER, W@CLIENTS, D@CLIENTS> ->
      ClientSignals@CLIENTS): maps the state, the weights that clients received,
      and their data to the signals that clients know before training.
    train: Maps the same arguments and the cohort's signals (`ClientSignals` of
      vectors at the server) to the output of a `ClientWorkProcess.next`.
  """

  measure: tff.Computation
  train: tff.Computation


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Training:
  """Builds client work that trains one model per client."""

  model_fn: local_model.ModelFn
  optimizer: tff.learning.optimizers.Optimizer
  settings: training_settings.TrainingSettings
  signals: Collection[str] = ()  # The `ClientSignals` that the rule needs.
  # Whether a secure sum adds the metrics, clipped to `BOUND`.
  securely: bool = False

  @functools.cached_property
  def info(self) -> local_model.ModelInfo:
    """The properties of the model that are known without running it."""
    return local_model.describe_trainable(self.model_fn)

  @functools.cached_property
  def state_computations(self) -> training_settings.StateComputations:
    """The computations on the state of the training, S."""
    return training_settings.build_state(
      self.optimizer, self.settings, self.extra_state
    )

  @property
  def extra_state(self) -> dict[str, tf.TensorSpec | np.ndarray]:
    """The additional parts of S, by name; see `build_state`."""
    found: dict[str, tf.TensorSpec | np.ndarray] = {}
    if groups := self.settings.groups:
      found[group_weights.MIXTURE] = groups.rho
    if not self.settings.takes_snapshot:
      return found
    specs = tff.types.type_to_tf_tensor_specs(self.info.weights_type.trainable)
    return {**found, SNAPSHOT: stacking.row_spec(specs)}

  @property
  def argument_types(self) -> tuple[tff.Type, tff.Type, tff.Type]:
    """The types of the state S, of the weights clients receive, and of data."""
    received: tff.Type = self.info.weights_type
    if "initial_loss" in self.signals:
      received = tff.to_type(
        collections.OrderedDict(current=received, initial=received)
      )
    spec = self.info.batch_spec
    if self.settings.groups:
      spec = group_weights.batch_spec(spec)
    return self.state_computations.type, received, batches.data_type(spec)

  @property
  def parameter(self) -> tuple[tff.FederatedType, ...]:
    """The types of the arguments of a round."""
    state, *of_clients = self.argument_types
    return (
      tff.FederatedType(state, tff.SERVER),
      *(tff.FederatedType(t, tff.CLIENTS) for t in of_clients),
    )

  @property
  def has_phases(self) -> bool:
    """Whether clients know all signals of the rule before training."""
    return self.settings.loss_at == "before" and are_known_before_training(
      self.signals
    )

  def build(self) -> tff.learning.templates.ClientWorkProcess:
    """Builds the process; see `build_training`."""
    work = self.build_for_client(
      lambda client, state, received: client.run(state, received)[0]
    )
    end_round = self.build_end_of_round(work)

    @tff.federated_computation
    def initialize() -> tff.Value:
      return tff.federated_eval(self.state_computations.initial, tff.SERVER)

    @tff.federated_computation(*self.parameter)
    def next_fn(
      state: tff.Value, received: tff.Value, data: tff.Value
    ) -> tff.templates.MeasuredProcessOutput:
      sent = tff.federated_broadcast(state)
      return end_round(state, tff.federated_map(work, (sent, received, data)))

    return tff.learning.templates.ClientWorkProcess(
      initialize,
      next_fn,
      get_hparams_fn=self.state_computations.get_hparams,
      set_hparams_fn=self.state_computations.set_hparams,
    )

  def build_phases(self) -> TrainingPhases:
    """Builds the two phases of the process; `has_phases` must be true.

    In the second phase, a client finds its signals by its id, so clients with
    the same id must have the same data. A client reports `num_examples` 0 if
    the server lacks its signals or if its update is not finite.
    `effective_steps` is 0 for all clients.
    """
    work = self.build_for_client(
      lambda client, state, received, cohort: client.train(
        state, received, signals_of(cohort, client.data.client_id())
      )[0],
      cohort_type(),
    )
    end_round = self.build_end_of_round(work)

    @tff.federated_computation(
      *self.parameter, tff.FederatedType(cohort_type(), tff.SERVER)
    )
    def train_all(
      state: tff.Value, received: tff.Value, data: tff.Value, cohort: tff.Value
    ) -> tff.templates.MeasuredProcessOutput:
      sent = tff.federated_broadcast(state), tff.federated_broadcast(cohort)
      return end_round(
        state, tff.federated_map(work, (sent[0], received, data, sent[1]))
      )

    return TrainingPhases(self.build_measure(), train_all)

  def build_measure(self) -> tff.Computation:
    """Builds the first phase; see `TrainingPhases`."""
    measure = self.build_for_client(client_round.ClientRound.measure)

    @tff.federated_computation(*self.parameter)
    def measure_all(
      state: tff.Value, received: tff.Value, data: tff.Value
    ) -> tff.Value:
      return tff.federated_map(
        measure, (tff.federated_broadcast(state), received, data)
      )

    return measure_all

  def build_for_client(
    self, run: Callable[..., Any], *extra_types: tff.Type
  ) -> tff.Computation:
    """Builds the computation of one client, which calls `run`.

    The computation takes the state, the received weights, the data and
    arguments of the `extra_types`. `run` takes the same arguments, but first a
    `ClientRound`, which has the data.
    """

    def run_client(
      model: local_model.LocalModel,
      state: training_settings.RoundState,
      received: Any,
      data: tf.data.Dataset,
      *others: Any,
    ) -> Any:
      if groups := self.settings.groups:
        model = group_weights.WeightedModel(model, len(groups.rho))
      client = client_round.ClientRound(
        model,
        self.optimizer,
        self.settings,
        self.signals,
        batches.ClientData(data),
      )
      return run(client, state, received, *others)

    @tff.tensorflow.computation(
      tff.to_type((*self.argument_types, *extra_types))
    )
    def work(arguments: tuple[Any, ...]) -> Any:
      return local_model.bind_model(self.model_fn, run_client)(*arguments)

    return work

  def next_state(self, state: tff.Value, total: tff.Value) -> tff.Value:
    """Returns the state S after a round; `total` has the sums over clients."""
    found = tff.federated_map(
      self.state_computations.next, (state, total["num_counted"])
    )
    if groups := self.settings.groups:
      moved = groups.build_next(found.type_signature.member)
      found = tff.federated_map(moved, (found, total[group_weights.SUMS]))
    if not self.settings.takes_snapshot:
      return found
    given = (found, total[SNAPSHOT], total["num_counted"])
    given_type = [value.type_signature.member for value in given]

    @tff.tensorflow.computation(*given_type)
    def with_snapshot(
      state: training_settings.RoundState, total: tf.Tensor, number: tf.Tensor
    ) -> types.TensorStructure:
      mean = tf.math.divide_no_nan(total, tf.cast(number, total.dtype))
      return collections.OrderedDict(state, **{SNAPSHOT: mean})

    return tff.federated_map(with_snapshot, given)

  def build_end_of_round(self, work: tff.Computation) -> tff.Computation:
    """Builds the server's computation after all clients have trained.

    It maps S and the clients' results to the output of a round with the
    measurements <train=M>. If all clients are excluded, floats in M are NaN.
    """
    result_type = work.type_signature.result

    @tff.tensorflow.computation(result_type[1])
    def finalize(total: Mapping[str, Any]) -> Mapping[str, tf.Tensor]:
      metrics = self.info.finalize_metrics(total["metrics"])
      return tf.nest.map_structure(
        lambda x: _or_nan(x, total["num_counted"] > 0), metrics
      )

    @tff.federated_computation(
      self.parameter[0], tff.FederatedType(result_type, tff.CLIENTS)
    )
    def end_round(
      state: tff.Value, results: tff.Value
    ) -> tff.templates.MeasuredProcessOutput:
      result, tally, *_ = results
      # A single sum, because each sum costs one sequential call per client.
      total = (secure_sum if self.securely else tff.federated_sum)(tally)
      measurements = collections.OrderedDict(
        train=tff.federated_map(finalize, total)
      )
      return tff.templates.MeasuredProcessOutput(
        self.next_state(state, total),
        result,
        tff.federated_zip(measurements),
      )

    return end_round


def build_training(
  model_fn: local_model.ModelFn,
  optimizer: tff.learning.optimizers.Optimizer,
  settings: training_settings.TrainingSettings,
  *,
  signals: Collection[str] = (),
  securely: bool = False,
) -> tff.learning.templates.ClientWorkProcess:
  """Builds the client work of every method that trains one model per client.

  Args:
    model_fn: Function that returns a new model; see `Training`.
    optimizer: The client optimizer, which is initialized in each round.
    settings: How clients train.
    signals: The signals that the rule needs. `gradient_norm` costs a backward
      pass over the examples, `initial_loss` a forward pass; all other signals
      are always reported.
    securely: Whether a secure sum adds the metrics.

  Returns:
    A process whose `next` has the type (<S@SERVER, W@CLIENTS, {<int64, B>*}
    @CLIENTS> -> <state=S@SERVER, result=ClientResult(W.trainable,
    ClientSignals)@CLIENTS, measurements=<train=M>@SERVER>). W is the model's
    weights, or with `initial_loss` those that `build_with_initial_weights`
    sends. A client whose update or loss is not finite, or that has no examples,
    reports `num_examples` 0. S holds the optimizer's hyperparameters, the
    number of rounds with any included client, the shuffle seed, and the parts
    that some `settings` add. The process has the optimizer's hyperparameters.

  Raises:
    TypeError: If an argument has the wrong type.
    FieldError: If a signal does not exist; a `ValueError`.
  """
  for name in signals:
    declared.check_choice("signals", name, types.MEASURED_SIGNALS)
  return Training(
    model_fn=model_fn,
    optimizer=optimizer,
    settings=settings,
    signals=signals,
    securely=securely,
  ).build()


def are_known_before_training(signals: Collection[str]) -> bool:
  """Returns whether clients know all of `signals` before they train."""
  return _TRAINING_ONLY_SIGNALS.isdisjoint(signals)


def _or_nan(metric: tf.Tensor, is_known: tf.Tensor) -> tf.Tensor:
  """Returns a metric; a float becomes NaN unless `is_known`."""
  if not metric.dtype.is_floating:
    return metric
  return tf.where(is_known, metric, tf.constant(float("nan"), metric.dtype))


def cohort_type() -> tff.Type:
  """Returns the type of a cohort's signals, `ClientSignals` of vectors."""
  return tff.types.tensorflow_to_type(types.signals_spec([None]))


def signals_of(
  cohort: types.ClientSignals, client_id: tf.Tensor
) -> types.ClientSignals:
  """Returns one client's signals, as scalars, from the vectors of a cohort.

  A client that is not in the cohort gets 0 examples and a NaN loss.
  """
  matches = tf.equal(cohort.client_id, client_id)

  def found() -> types.ClientSignals:
    place = tf.argmax(matches)
    return types.ClientSignals(*(column[place] for column in cohort))

  def missing() -> types.ClientSignals:
    nothing = dict.fromkeys(types.ClientSignals._fields, tf.zeros([]))
    unknown = tf.constant(float("nan"))
    return types.ClientSignals(**nothing)._replace(
      client_id=tf.identity(client_id), loss=unknown
    )

  return tf.cond(tf.reduce_any(matches), found, missing)


def secure_sum(tally: tff.Value) -> tff.Value:
  """Returns the secure sum of a structure of clients' numbers."""
  unused_assertions.keep_out_of_log()
  member = tally.type_signature.member
  specs = tff.types.type_to_tf_tensor_specs(member)

  # TFF's secure sum takes tuples, but not lists, which Keras metrics contain.
  @tff.tensorflow.computation(member)
  def widen(values: types.TensorStructure) -> tuple[tf.Tensor, ...]:
    return tuple(
      tf.cast(x, tf.float64) if x.dtype.is_floating else x
      for x in tf.nest.flatten(values)
    )

  wide_type = widen.type_signature.result

  @tff.tensorflow.computation(wide_type)
  def narrow(total: Sequence[tf.Tensor]) -> types.TensorStructure:
    dtypes = [spec.dtype for spec in tf.nest.flatten(specs)]
    return tf.nest.pack_sequence_as(specs, [*map(tf.cast, total, dtypes)])

  least, greatest = zip(*map(_bounds, wide_type), strict=True)
  total = tff.aggregators.secure_quantized_sum(
    tff.federated_map(widen, tally), least, greatest
  )
  return tff.federated_map(narrow, total)


def _bounds(number: tff.TensorType) -> list[np.generic]:
  """Returns the bounds that a secure sum needs, in the dtype of `number`."""
  kind = np.dtype(number.dtype).type
  is_float = np.issubdtype(kind, np.floating)
  return [*map(kind, _FLOATS if is_float else _INTEGERS)]
