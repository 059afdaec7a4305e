"""The computations of the stages, from the settings of a run."""

import dataclasses
from typing import NamedTuple

import tensorflow_federated as tff

import tasks
from tff_fair import algorithms, client_works
from tff_fair.experiments.spec import RunSpec
from tff_fair.experiments.training import learning_process
from tff_fair.label_correction import federated
from tff_fair.runtime.compilation_cache import CompilationCache


class Computations(NamedTuple):
  """What the stages compute over clients.

  Attributes:
    correct: A round of the first stage, as `federated.build_round` returns it.
    predict: As `federated.build_predictions` returns it.
    initialize: These four are of FedAvg's learning process, for the second
      stage.
    next: Runs a round.
    set_model_weights: From a state and weights to a state.
    get_model_weights: From a state to weights.
  """

  correct: tff.Computation
  predict: tff.Computation
  initialize: tff.Computation
  next: tff.Computation
  set_model_weights: tff.Computation
  get_model_weights: tff.Computation


def build(
  spec: RunSpec, task: tasks.Task, cache: CompilationCache
) -> Computations:
  """Returns the computations: built now, or by an earlier program.

  Clients train as in the run, but at a rate that stays.

  Args:
    spec: The run.
    task: The model, and the number of clients.
    cache: What earlier programs have compiled.
  """
  assert task.num_classes is not None
  chosen = learning_process.arguments(spec, task, "streaming", attack=None)
  work = {
    field.name: chosen[field.name]
    for field in dataclasses.fields(client_works.TrainingSettings)
    if field.name in chosen and "decay" not in field.name
  } | {"loss_at": "training"}
  weighting, optimizer = chosen["client_weighting"], chosen["client_optimizer"]
  num_classes = task.num_classes
  with_softmax = task.objective.activation == "softmax"

  def build_now() -> dict[str, tff.Computation]:
    client_optimizer = learning_process.build_optimizer(*optimizer)
    fedavg = algorithms.build(
      "fedavg",
      task.model,
      client_optimizer=client_optimizer,
      client_weighting=weighting,
      **work,
    )
    return Computations(
      correct=federated.build_round(
        task.model,
        client_optimizer,
        client_works.TrainingSettings(**work),
        num_classes=num_classes,
        with_softmax=with_softmax,
      ),
      predict=federated.build_predictions(
        task.model, num_classes=num_classes, with_softmax=with_softmax
      ),
      initialize=fedavg.initialize,
      next=fedavg.next,
      set_model_weights=fedavg.set_model_weights,
      get_model_weights=fedavg.get_model_weights,
    )._asdict()

  key = (
    "label_correction",
    work,
    weighting,
    optimizer,
    num_classes,
    with_softmax,
    task.model_parts,
  )
  return Computations(**cache.compiled(key, build_now))
