"""The round of clients that keep something, in two phases."""

from collections.abc import Collection

import tensorflow_federated as tff

from tff_fair.client_works import (
  keeping,
  keeping_state,
  local_model,
  model_info,
  training,
  training_phases,
  training_settings,
)


def build_keeping_phases(
  model_fn: local_model.ModelFn,
  optimizer: tff.learning.optimizers.Optimizer,
  settings: training_settings.TrainingSettings,
  kept: keeping.Keeping,
  *,
  signals: Collection[str] = (),
) -> training_phases.TrainingPhases:
  """Builds the round of `build_keeping_round` in two phases.

  Args:
    model_fn: As `build_keeping_round` takes it, and so are those that follow.
    optimizer: The client optimizer.
    settings: How clients train, with `loss_at="before"`.
    kept: What clients keep.
    signals: The signals that the rule asks for.

  Returns:
    Phases as `build_training_phases`'s, each of which takes one argument more,
    after the data: the tables.
  """
  info = model_info.describe(model_fn)
  tables = kept.tables(info.weights_type, optimizer)
  options = model_fn, optimizer, settings, signals
  measure = training_phases.build_measure(*options)
  work = training.build_client_computation(
    lambda client, state, received, cohort, own: kept.run(
      client, state, received, own, cohort
    ),
    *options,
    training_phases.cohort_type(),
    keeping_state.type_of_own(tables),
  )
  state_type, *others, cohort_type, own_type = work.type_signature.parameter
  end_round = keeping_state.build_end_of_round(info, optimizer, tables, work)
  parameters = (
    tff.FederatedType(
      keeping_state.type_of_state(state_type, tables), tff.SERVER
    ),
    *(tff.FederatedType(t, tff.CLIENTS) for t in (*others, own_type)),
  )

  @tff.federated_computation(*parameters)
  def measure_all(
    state: tff.Value, received: tff.Value, data: tff.Value, own: tff.Value
  ) -> tff.Value:
    del own  # Only training needs it.
    return measure(state[keeping_state.TRAINING], received, data)

  @tff.federated_computation(
    *parameters, tff.FederatedType(cohort_type, tff.SERVER)
  )
  def train_all(
    state: tff.Value,
    received: tff.Value,
    data: tff.Value,
    own: tff.Value,
    cohort: tff.Value,
  ) -> tff.templates.MeasuredProcessOutput:
    sent = tff.federated_broadcast(state[keeping_state.TRAINING])
    known = tff.federated_broadcast(cohort)
    return end_round(
      state, tff.federated_map(work, (sent, received, data, known, own))
    )

  return training_phases.TrainingPhases(measure_all, train_all)
