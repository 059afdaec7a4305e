"""The state at the server where clients keep something, and what it becomes.

It has the state of the training, and a table of each thing that clients keep.
"""

import collections
from collections.abc import Mapping
from typing import Any, TypeAlias

import tensorflow_federated as tff

from tff_fair.client_works import (
  client_table,
  model_info,
  training,
  training_state,
)
from tff_fair.optimizers.learning_rate_decay import Hparams

TRAINING = "training"
# `training`, the state of the training, and the tables by their names.
State: TypeAlias = collections.OrderedDict[str, Any]


def build_initial(
  at_server: training_state.StateComputations,
  tables: Mapping[str, client_table.Columns],
) -> tff.Computation:
  """Builds the computation that returns the state before the first round.

  Args:
    at_server: The computations on the training's state.
    tables: The columns of the tables, by name.
  """

  @tff.tensorflow.computation
  def initial_state() -> State:
    return collections.OrderedDict(
      [
        (TRAINING, at_server.initial()),
        *((name, columns.empty()) for name, columns in tables.items()),
      ]
    )

  return initial_state


def type_of_own(tables: Mapping[str, client_table.Columns]) -> tff.StructType:
  """Returns the type of the tables, by name.

  Args:
    tables: Their columns, by name.
  """
  return tff.StructType([(n, columns.type) for n, columns in tables.items()])


def type_of_state(
  training_type: tff.Type, tables: Mapping[str, client_table.Columns]
) -> tff.Type:
  """Returns the type of the state.

  Args:
    training_type: The type of the training's state.
    tables: The columns of the tables, by name.
  """
  return tff.to_type(
    collections.OrderedDict(
      [
        (TRAINING, training_type),
        *((name, columns.type) for name, columns in tables.items()),
      ]
    )
  )


def build_end_of_round(
  info: model_info.ModelInfo,
  optimizer: tff.learning.optimizers.Optimizer,
  tables: Mapping[str, client_table.Columns],
  work: tff.Computation,
) -> tff.Computation:
  """Builds what follows at the server: from state and results to the output.

  Args:
    info: The facts about the model.
    optimizer: The client optimizer.
    tables: The columns of the tables, by name.
    work: The computation of a client, which returns a `keeping.Result`.
  """
  at_server = training_state.build_state(optimizer)
  result_type = work.type_signature.result
  end_training = training.build_end_of_round(info, at_server, result_type[1])
  updates = {
    name: client_table.build_update(columns) for name, columns in tables.items()
  }

  @tff.federated_computation(
    tff.FederatedType(type_of_state(at_server.type, tables), tff.SERVER),
    tff.FederatedType(result_type, tff.CLIENTS),
  )
  def end_round(
    state: tff.Value, results: tff.Value
  ) -> tff.templates.MeasuredProcessOutput:
    result, tally, kept = results
    trained, measurements = end_training(state[TRAINING], tally)
    put_in = [
      (name, update(state[name], kept[name]))
      for name, update in updates.items()
    ]
    return tff.templates.MeasuredProcessOutput(
      tff.federated_zip(
        collections.OrderedDict([(TRAINING, trained), *put_in])
      ),
      result,
      measurements,
    )

  return end_round


def build_hparams(
  at_server: training_state.StateComputations,
  tables: Mapping[str, client_table.Columns],
) -> tuple[tff.Computation, tff.Computation]:
  """Builds the computations that read and set the hyperparameters.

  Args:
    at_server: The computations on the training's state, which has them.
    tables: The columns of the tables, by name.
  """
  state_type = type_of_state(at_server.type, tables)

  @tff.tensorflow.computation(state_type)
  def get_hparams(state: State) -> Hparams:
    return at_server.get_hparams(state[TRAINING])

  @tff.tensorflow.computation(state_type, get_hparams.type_signature.result)
  def set_hparams(state: State, hparams: Hparams) -> State:
    new = at_server.set_hparams(state[TRAINING], hparams)
    return collections.OrderedDict([*state.items(), (TRAINING, new)])

  return get_hparams, set_hparams
