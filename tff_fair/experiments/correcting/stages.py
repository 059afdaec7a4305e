"""The first two stages of FedCorr, before the first round of a run.

Xu, Chen, Quek, Chong, "FedCorr: Multi-Stage Federated Learning for Label Noise
Correction" (CVPR 2022):

1. Pre-processing: in each iteration, every client trains once, a small cohort
   after the other, with a proximal term of weight beta mu_k. Each tells the
   mean dimension of its own trained model's predictions; the server calls those
   of high dimension noisy. A noisy client tells its noise level mu_k by its
   losses, and relabels some of its examples as the global model says.
2. Finetuning: FedAvg on clients whose noise level is kappa at most. Then noisy
   clients relabel all examples that the global model is sure of.

The third stage is the run itself. The paper's mixup in local training is left
out: no method here trains so. A run that is interrupted goes on after its last
iteration, or after its first stage, and ends with the same results.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tasks
from tasks import label_noise
from tff_fair import runtime
from tff_fair.declared import FieldError
from tff_fair.experiments import interruption
from tff_fair.experiments.correcting import computations
from tff_fair.experiments.correcting import record as records
from tff_fair.experiments.correcting.record import Record
from tff_fair.experiments.progress import Say
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.spec import RunSpec
from tff_fair.experiments.training import assembly, client_data, sampling
from tff_fair.label_correction import dimension, relabelling
from tff_fair.runtime.compilation_cache import CompilationCache

# Keep what is drawn from one seed apart, here and from `sampling`.
_ITERATIONS, _FINETUNING = 101, 102
_CLIENTS_PER_CALL = 50  # What one call takes to the worker at a time.

Weights: TypeAlias = "tff.learning.models.ModelWeights"


def check(spec: RunSpec, plan: assembly.Plan) -> None:
  """Checks that this program has the labels that it is to correct.

  Raises:
    FieldError: If workers read the data by themselves.
  """
  if spec.label_correction != "none" and (
    plan.worker_data is not None or runtime.builds_data()
  ):
    raise FieldError(
      "label_correction",
      "needs the labels in this program, and here workers read the data by "
      "themselves; leave out worker_data, and engine=dask.",
      value=spec.label_correction,
    )


def correct(
  folder: RunFolder, spec: RunSpec, plan: assembly.Plan, say: Say
) -> tuple[assembly.Plan, Weights | None]:
  """Runs both stages, or what is left of them, if the run asks for them.

  Args:
    folder: The folder of the run.
    spec: The run.
    plan: Its parts.
    say: Takes a line about the stages.

  Returns:
    The plan, whose task has the new labels; and the finetuned model, `None`
    without correction.

  Raises:
    RunError: If what was saved before is damaged.
    Interrupted: If a signal came.
  """
  if spec.label_correction == "none":
    return plan, None
  task = plan.task
  initial = plan.process.get_model_weights(plan.process.initialize())
  most = plan.cohorts.clients_per_round[1]
  stages = _Stages(spec, task, initial, most, plan.cache)
  record = records.load(folder)
  if record is None:
    flat = [np.asarray(w) for w in tf.nest.flatten(initial.trainable)]
    record = records.start(flat, task.num_clients)
  name = f"{folder.path}: label correction"
  while record.iterations < spec.correction_iterations:
    record = stages.iterate(record)
    records.save(folder, record)
    say(
      f"{name}, iteration {record.iterations} of {spec.correction_iterations}: "
      f"{records.describe(task, record)}."
    )
  if not record.is_done:
    record = stages.finetune(record)
    records.write_table(folder, task, record)
    records.save(folder, record)
    say(f"{name}, finetuned: {records.describe(task, record)}.")
  corrected = label_noise.with_labels(task, record.labels)
  return (
    dataclasses.replace(plan, task=corrected),
    stages.packed(record.weights),
  )


class _Stages:
  """The stages, from record to record."""

  def __init__(
    self,
    spec: RunSpec,
    task: tasks.Task,
    initial: Weights,
    cohort: int,
    cache: CompilationCache,
  ) -> None:
    self._spec = spec
    self._task = task
    self._initial = initial
    self._cohort = cohort
    self._computations = computations.build(spec, task, cache)

  def packed(self, weights: Sequence[np.ndarray]) -> Weights:
    """Returns model weights, given the trainable ones flat."""
    return tff.learning.models.ModelWeights(
      tf.nest.pack_sequence_as(self._initial.trainable, list(weights)),
      self._initial.non_trainable,
    )

  def iterate(self, record: Record) -> Record:
    """Returns the record after one more iteration of the first stage."""
    spec, task = self._spec, self._relabelled(record)
    mu = relabelling.proximal_weights(record.levels, spec.correction_proximal)
    weights = self.packed(record.weights)
    dimensions = np.full(task.num_clients, np.nan)
    losses: dict[int, np.ndarray] = {}
    with client_data.opened(task) as (train_data, _):
      for cohort in self._cohorts(record.iterations):
        interruption.check()
        weights, rows = self._computations.correct(
          weights,
          record.iterations,
          [mu[k] for k in cohort],
          train_data(cohort),
        )
        for k, probabilities in _by_client(rows):
          dimensions[k] = dimension.mean_dimension(
            probabilities, spec.correction_neighbors
          )
          losses[k] = relabelling.losses(probabilities, task.train.load(k)[1])
      cumulative = record.dimensions + dimensions
      is_noisy = relabelling.noisy_clients(cumulative)
      levels = np.zeros(task.num_clients)
      for k in np.flatnonzero(is_noisy).tolist():
        levels[k] = relabelling.noise_level(losses[k])
      found = self._predictions(weights, is_noisy, train_data)
    labels = {
      k: relabelling.relabelled(
        task.train.load(k)[1],
        probabilities,
        spec.correction_confidence,
        relabelling.suspects(losses[k], levels[k], spec.correction_share),
      )
      for k, probabilities in found
    }
    return dataclasses.replace(
      record,
      iterations=record.iterations + 1,
      weights=_flat(weights),
      labels={**record.labels, **labels},
      dimensions=cumulative,
      levels=levels,
      is_noisy=is_noisy,
    )

  def finetune(self, record: Record) -> Record:
    """Returns the record after the second stage."""
    spec, task = self._spec, self._relabelled(record)
    if not spec.correction_finetuning:
      return dataclasses.replace(record, is_done=True)
    clean = np.flatnonzero(record.levels <= spec.correction_clean)
    size = min(self._cohort, len(clean))
    fedavg = self._computations
    state = fedavg.set_model_weights(
      fedavg.initialize(), self.packed(record.weights)
    )
    with client_data.opened(task) as (train_data, _):
      for round_num in range(spec.correction_finetuning):
        interruption.check()
        random = sampling.generator(spec.seed, _FINETUNING, round_num)
        cohort = np.sort(random.choice(clean, size, replace=False)).tolist()
        state = fedavg.next(state, train_data(cohort)).state
      weights = fedavg.get_model_weights(state)
      found = self._predictions(weights, record.is_noisy, train_data)
    labels = {
      k: relabelling.relabelled(
        task.train.load(k)[1], probabilities, spec.correction_confidence
      )
      for k, probabilities in found
    }
    return dataclasses.replace(
      record,
      is_done=True,
      weights=_flat(weights),
      labels={**record.labels, **labels},
    )

  def _relabelled(self, record: Record) -> tasks.Task:
    return label_noise.with_labels(self._task, record.labels)

  def _cohorts(self, iteration: int) -> Iterator[list[int]]:
    """Yields the cohorts of an iteration: every client is in one of them."""
    random = sampling.generator(self._spec.seed, _ITERATIONS, iteration)
    order = random.permutation(self._task.num_clients)
    size = self._spec.correction_cohort
    for start in range(0, len(order), size):
      yield np.sort(order[start : start + size]).tolist()

  def _predictions(
    self,
    weights: Weights,
    is_noisy: np.ndarray,
    train_data: client_data.ClientData,
  ) -> list[tuple[int, np.ndarray]]:
    """Returns what a model predicts for the examples of noisy clients."""
    found: list[tuple[int, np.ndarray]] = []
    ids = np.flatnonzero(is_noisy).tolist()
    for start in range(0, len(ids), _CLIENTS_PER_CALL):
      interruption.check()
      part = ids[start : start + _CLIENTS_PER_CALL]
      rows = self._computations.predict(weights, train_data(part))
      found += _by_client(rows)
    return found


def _by_client(
  rows: Mapping[str, np.ndarray],
) -> list[tuple[int, np.ndarray]]:
  """Returns the predictions of each client, from rows that are in order."""
  ids, starts = np.unique(rows["client_id"], return_index=True)
  parts = np.split(rows["probabilities"], starts[1:])
  return list(zip(ids.tolist(), parts, strict=True))


def _flat(weights: Weights) -> list[np.ndarray]:
  return [np.array(w) for w in tf.nest.flatten(weights.trainable)]
