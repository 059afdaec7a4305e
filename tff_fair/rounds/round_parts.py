"""The parts that a process shares with its rounds in phases."""

import collections
from typing import Any, NamedTuple

import tensorflow_federated as tff

from tff_fair import client_works, summing


class RoundParts(NamedTuple):
  """The distributor, client work, sum and finalizer of a process."""

  distributor: tff.learning.templates.DistributionProcess
  work: client_works.MethodWork
  factory: summing.RuleFactory
  finalizer: tff.learning.templates.FinalizerProcess


def send(parts: RoundParts, state: Any) -> tff.templates.MeasuredProcessOutput:
  """Returns the distributor's output in a round."""
  return parts.distributor.next(state.distributor, state.global_model_weights)


def end_round(
  parts: RoundParts,
  state: Any,
  sent: tff.templates.MeasuredProcessOutput,
  trained: tff.templates.MeasuredProcessOutput,
  summed: tff.templates.MeasuredProcessOutput,
  **further: tff.Value,
) -> tff.learning.templates.LearningProcessOutput:
  """Returns state and metrics as `tff.learning.templates` composes them."""
  stepped = parts.finalizer.next(
    state.finalizer, state.global_model_weights, summed.result
  )
  return tff.learning.templates.LearningProcessOutput(
    tff.federated_zip(
      tff.learning.templates.LearningAlgorithmState(
        stepped.result, sent.state, trained.state, summed.state, stepped.state
      )
    ),
    tff.federated_zip(
      collections.OrderedDict(
        distributor=sent.measurements,
        client_work=trained.measurements,
        aggregator=summed.measurements,
        finalizer=stepped.measurements,
        **further,
      )
    ),
  )


def with_next(
  process: tff.learning.templates.LearningProcess, next_fn: tff.Computation
) -> tff.learning.templates.LearningProcess:
  """Returns a process whose rounds are another computation's."""
  return tff.learning.templates.LearningProcess(
    process.initialize,
    next_fn,
    process.get_model_weights,
    process.set_model_weights,
    get_hparams_fn=process.get_hparams,
    set_hparams_fn=process.set_hparams,
  )
