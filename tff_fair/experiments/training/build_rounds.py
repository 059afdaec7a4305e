"""Builds the sampler of a run's cohorts, and the runner of its rounds.

`resume` trains with them in a run's folder, `in_memory` without a folder.
"""

import tensorflow_federated as tff

from tff_fair import methods
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.training import (
  build,
  client_data,
  client_evaluation,
  client_updates,
  drfa_rounds,
  fairfed_deviations,
  plan,
  sampling,
)
from tff_fair.experiments.training.rounds import Process, RoundRunner, State
from tff_fair.rounds import phased_rounds


def sampler(spec: RunSpec, parts: build.RunParts) -> sampling.Sampler:
  """Returns the sampler of a run's cohorts."""
  labels = None  # Each client's most frequent label, if dropout depends on it.
  if spec.dropout and spec.dropout_kind == "by_label":
    labels = parts.task.label_counts.argmax(axis=1)
  return sampling.Sampler(
    spec,
    parts.clients_per_round,
    parts.task.train.num_examples,
    labels,
    parts.first_rounds,
  )


def rounds(
  spec: RunSpec,
  parts: build.RunParts,
  sample: sampling.Sampler,
  train_data: client_data.ClientDatasets,
  weights: tff.learning.models.ModelWeights | None,
  wants_updates: bool,
) -> RoundRunner:
  """Returns the runner of a run's rounds, which begin with `weights` if any."""
  task, ascent = parts.task, None
  if spec.algorithm == drfa_rounds.METHOD:
    losses = client_evaluation.build_losses(parts, train_data)
    ascent = drfa_rounds.MixtureAscent(spec, parts, sample, losses)

  def prepare_initial_state(state: State) -> State:
    state = parts.prepare_initial_state(state)
    if ascent is not None:
      state = ascent.prepare_initial_state(state)
    if weights is None:
      return state
    return parts.process.set_model_weights(state, weights)

  process: Process = parts.process
  if parts.next_with_rows is not None:
    process = phased_rounds.CohortRowsProcess(
      parts.process, parts.next_with_rows, spec.clients_per_part
    )
  return RoundRunner(
    process=process,
    sample=sample,
    train_data=client_data.ClientLoader(
      task.train, task.element_spec, groups=task.train.groups
    )
    if spec.algorithm == plan.FEDMINMAX
    else train_data,
    last_round=parts.schedule.total_rounds,
    costs=parts.costs,
    losses=client_evaluation.build_losses(parts, train_data)
    if spec.measure_improvement
    else None,
    num_examples=task.train.num_examples,
    prepare=fairfed_deviations.build_prepare(spec, parts),
    before_round=None if ascent is None else ascent.before_round,
    after_round=None if ascent is None else ascent.after_round,
    prepare_initial_state=prepare_initial_state,
    can_prefetch=ascent is None and spec.sampling != "power_of_choice",
    updates=client_updates.build_updates(
      spec, parts, lambda: prepare_initial_state(parts.process.initialize())
    )
    if wants_updates
    else None,
    counts_negative_as_zero=methods.get(
      spec.algorithm
    ).build.rule.counts_negative_as_zero,
  )
