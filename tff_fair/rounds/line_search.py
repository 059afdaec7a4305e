"""Builds rounds in which clients' losses determine the server step's length.

  first:   clients train, and the rule chooses the direction d
  second:  the server sends d, clients evaluate theta - eta_s a d for several
           factors a, and the server chooses one a and takes that step

No sum of a phase depends on another sum of the same phase, so that several
workers can share each phase.
"""

import collections
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import client_works
from tff_fair.rounds import phased_rounds
from tff_fair.runtime import phases


class Trials(NamedTuple):
  """The data from which a search chooses: m included clients, t trial steps.

  Attributes:
    loss: float64[m], f_k(theta).
    slope: float64[m], <grad f_k, d>, estimated from the clients' updates: the
      rule's measurement `slopes`. NaN for a client whose update is zero.
    trial_loss: float64[m, t], f_k(theta - eta_s a d); NaN if a client did
      not report it.
    factor: float64[t], the factors a, in descending order.
    learning_rate: float64[], eta_s, the server's learning rate.
  """

  loss: tf.Tensor
  slope: tf.Tensor
  trial_loss: tf.Tensor
  factor: tf.Tensor
  learning_rate: tf.Tensor


class Choice(NamedTuple):
  """The factor that a search chose.

  Attributes:
    factor: float64[], the factor a; 0 means no step.
    is_sufficient: bool[], whether the factor meets the search's condition.
  """

  factor: tf.Tensor
  is_sufficient: tf.Tensor


class LineSearch(NamedTuple):
  """How to search for the length of the server's step.

  Attributes:
    factors: The values of a to try, in descending order.
    choose: Chooses a factor from `Trials`; a pure function of small tensors.
  """

  factors: tuple[float, ...]
  choose: Callable[[Trials], Choice]


def with_line_search(
  process: tff.learning.templates.LearningProcess,
  parts: phased_rounds.RoundParts,
  search: LineSearch,
  *,
  client_work: tff.learning.templates.ClientWorkProcess,
  aggregation: tff.templates.AggregationProcess,
  learning_rate: tff.Computation,
) -> tff.learning.templates.LearningProcess:
  """Returns a process whose rounds search for the length of their step.

  The finalizer of `parts` must take a step of plain SGD, and `aggregation` must
  measure `client_ids`, `client_losses` and `slopes`. In the metrics,
  `line_search` replaces `slopes`: `step_factor` is the chosen a; `sufficient`
  is 1 if this a met the search's condition, else 0. Raises `TypeError` if the
  rule does not report `slopes`.
  """
  measured = aggregation.next.type_signature.result.measurements.member
  if "slopes" not in dir(measured):
    raise TypeError(
      f"{type(parts.factory.rule).__name__} cannot be searched along: expected "
      "a rule whose measurements have `slopes`, one for each client."
    )
  parameter = process.next.type_signature.parameter
  train = _build_train(parts, parameter, client_work, aggregation)
  choose = _build_choose(
    parts,
    parameter,
    train.type_signature.result,
    search,
    learning_rate=learning_rate,
  )

  @tff.federated_computation(*parameter)
  def next_fn(state: Any, client_data: Any) -> Any:
    return choose(state, client_data, train(state, client_data))

  return phases.with_next(
    process, phases.PhasedComputation.create(next_fn, lambda: (train, choose))
  )


def _build_train(
  parts: phased_rounds.RoundParts,
  parameter: tff.Type,
  client_work: tff.learning.templates.ClientWorkProcess,
  aggregation: tff.templates.AggregationProcess,
) -> tff.Computation:
  """Builds the first phase, which trains and aggregates."""

  @tff.federated_computation(*parameter)
  def train(state: Any, client_data: Any) -> Any:
    received = phased_rounds.send(parts, state).result
    trained = client_work.next(state.client_work, received, client_data)
    summed = aggregation.next(
      state.aggregator, trained.result.update, trained.result.update_weight
    )
    return tff.federated_zip(
      collections.OrderedDict(
        trained=collections.OrderedDict(
          state=trained.state, measurements=trained.measurements
        ),
        summed=collections.OrderedDict(
          state=summed.state,
          result=summed.result,
          measurements=summed.measurements,
        ),
      )
    )

  return train


def _build_choose(
  parts: phased_rounds.RoundParts,
  parameter: tff.Type,
  first_type: tff.Type,
  search: LineSearch,
  *,
  learning_rate: tff.Computation,
) -> tff.Computation:
  """Builds the second phase, which searches and takes the server step.

  The phase takes the arguments of `next`, then the result of the first phase.
  """
  try_steps = parts.work.build_trial_losses(search.factors)
  summed_type = first_type.member["summed"]
  apply_search = tff.tensorflow.computation(
    lambda summed, trials, rate: _apply_search(search, summed, trials, rate),
    (
      collections.OrderedDict(
        result=_dictionary_type(summed_type["result"]),
        measurements=_dictionary_type(summed_type["measurements"]),
      ),
      try_steps.type_signature.result.member,
      learning_rate.type_signature.result,
    ),
  )

  @tff.federated_computation(*parameter, first_type)
  def choose(state: Any, client_data: Any, first: Any) -> Any:
    trained, summed = first["trained"], first["summed"]
    rate = tff.federated_map(learning_rate, state.finalizer)
    trials = try_steps(
      *map(
        tff.federated_broadcast,
        (state.global_model_weights, summed["result"]["update"], rate),
      ),
      client_data,
    )
    found = tff.federated_map(
      apply_search,
      (
        tff.federated_zip(
          collections.OrderedDict(
            result=summed["result"], measurements=summed["measurements"]
          )
        ),
        trials,
        rate,
      ),
    )
    return phased_rounds.end_round(
      parts,
      state,
      phased_rounds.send(parts, state),
      tff.templates.MeasuredProcessOutput(
        trained["state"], (), trained["measurements"]
      ),
      tff.templates.MeasuredProcessOutput(
        summed["state"], found["result"], found["measurements"]
      ),
      line_search=found["line_search"],
    )

  return choose


def _apply_search(
  search: LineSearch,
  summed: Any,
  trials: client_works.TrialLosses,
  learning_rate: tf.Tensor,
) -> collections.OrderedDict[str, Any]:
  """Returns an aggregation's output with d scaled by the chosen factor.

  In the measurements, the results of the search replace `slopes`.
  """
  measurements = collections.OrderedDict(summed["measurements"])
  slope = tf.cast(measurements.pop("slopes"), tf.float64)
  found = search.choose(
    Trials(
      loss=tf.cast(measurements["client_losses"], tf.float64),
      slope=slope,
      trial_loss=tf.cast(
        client_works.losses_of(measurements["client_ids"], trials), tf.float64
      ),
      factor=tf.constant(search.factors, tf.float64),
      learning_rate=tf.cast(learning_rate, tf.float64),
    )
  )
  result = collections.OrderedDict(summed["result"])
  result["update"] = tf.nest.map_structure(
    lambda layer: tf.cast(found.factor, layer.dtype) * layer, result["update"]
  )
  return collections.OrderedDict(
    result=result,
    measurements=measurements,
    line_search=collections.OrderedDict(
      step_factor=tf.cast(found.factor, tf.float32),
      sufficient=tf.cast(found.is_sufficient, tf.int32),
    ),
  )


def _dictionary_type(struct: tff.Type) -> tff.Type:
  """Returns the type of a dictionary with the fields of a struct type."""
  return tff.to_type(
    collections.OrderedDict(tff.structure.iter_elements(struct))
  )
