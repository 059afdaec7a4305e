"""Corrects labels before the first round, by FedCorr's first two stages.

Xu, Chen, Quek, Chong, "FedCorr: Multi-Stage Federated Learning for Label Noise
Correction" (CVPR 2022):

1. Pre-processing: in each iteration, every client trains once, one small cohort
   after another, with a proximal term of weight beta mu_k. Each client reports
   the mean dimension of its trained model's predictions; clients with a high
   dimension are classified as noisy. A noisy client estimates its noise level
   mu_k from its losses, and relabels some of its examples by the global model.
2. Finetuning: FedAvg trains on clients whose noise level is at most kappa. Then
   noisy clients relabel all examples on which the global model is confident.

The third stage is the run itself. The paper's mixup in local training is left
out, since none of this library's methods trains with it. An interrupted run
resumes after the last complete iteration of the first stage, repeats the second
stage if that was incomplete, and ends with the same results.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pandas as pd
import tensorflow as tf
import tensorflow_federated as tff

import tasks
from tasks import label_noise
from tff_fair import algorithms, client_works, runtime
from tff_fair.declared import FieldError
from tff_fair.experiments import interruption
from tff_fair.experiments.progress import Say
from tff_fair.experiments.runs import array_files
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.spec import seeds
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.spec.settings import bounds
from tff_fair.experiments.training import build, client_data, learning_process
from tff_fair.files import atomic, csv_cells
from tff_fair.label_correction import federated, noisy_labels
from tff_fair.runtime.compilation_cache import CompilationCache


def build_computations(
  spec: RunSpec, task: tasks.Task, cache: CompilationCache
) -> Mapping[str, tff.Computation]:
  """Returns the TFF computations of both stages, by name."""
  assert task.num_classes is not None
  work = {
    name: value
    for name, value in spec.local_work.items()
    if "decay" not in name
  } | {"loss_at": "training"}
  weighting = learning_process.client_weighting(spec, task)
  optimizer = learning_process.client_optimizer(spec)
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
    return {
      "correct": federated.build_round(
        task.model,
        client_optimizer,
        client_works.TrainingSettings(**work),
        num_classes=num_classes,
        with_softmax=with_softmax,
      ),
      "predict": federated.build_predictions(
        task.model, num_classes=num_classes, with_softmax=with_softmax
      ),
      "initialize": fedavg.initialize,
      "next": fedavg.next,
      "set_model_weights": fedavg.set_model_weights,
      "get_model_weights": fedavg.get_model_weights,
    }

  settings = (work, weighting, optimizer, num_classes, with_softmax)
  key = ("label_correction", *settings, task.model_parts)
  return cache.computations(key, build_now)


_WEIGHT, _LABELS = "weight_", "labels_"
_COLUMNS = ("dimensions", "levels", "is_noisy")
# Keys of random draws, so that these are independent of those in `sampling`.
_ITERATIONS, _FINETUNING = 101, 102
_CLIENTS_PER_CALL = 50  # The most clients whose data one call reads.

Weights: TypeAlias = "tff.learning.models.ModelWeights"


def check_labels_available(spec: RunSpec) -> None:
  """Raises a `FieldError` if only workers have the labels to correct."""
  if spec.label_correction != "none" and runtime.workers_can_build_data():
    raise FieldError(
      "label_correction",
      "needs the labels in this program, and here workers read the data by "
      "themselves; leave out engine=dask.",
      value=spec.label_correction,
    )


def correct(
  folder: RunFolder, spec: RunSpec, parts: build.RunParts, say: Say
) -> tuple[build.RunParts, Weights | None]:
  """Runs the remaining stages; returns the parts with the corrected task.

  It also returns the weights with which training begins. Without label
  correction, it returns `parts` and None.
  """
  if spec.label_correction == "none":
    return parts, None
  task, stages = parts.task, _Stages(spec, parts)
  record = load(folder) or stages.start()
  name = f"{folder.path}: label correction"
  while record.iterations < spec.correction_iterations:
    record = stages.iterate(record)
    save(folder, record)
    say(
      f"{name}, iteration {record.iterations} of {spec.correction_iterations}: "
      f"{describe(task, record)}."
    )
  if not record.is_done:
    record = stages.finetune(record)
    write_table(folder, task, record)
    save(folder, record)
    say(f"{name}, finetuned: {describe(task, record)}.")
  corrected = label_noise.with_labels(task, record.labels)
  return (
    dataclasses.replace(parts, task=corrected),
    stages.pack_weights(record.weights),
  )


def with_corrected_labels(folder: RunFolder, task: tasks.Task) -> tasks.Task:
  """Returns a run's task with its corrected labels, if it has corrected any."""
  record = load(folder)
  return (
    task if record is None else label_noise.with_labels(task, record.labels)
  )


class _Stages:
  """The first two stages; each step takes a record and returns the next one."""

  def __init__(self, spec: RunSpec, parts: build.RunParts) -> None:
    self._spec = spec
    self._task = parts.task
    self._initial = parts.process.get_model_weights(
      parts.prepare_initial_state(parts.process.initialize())
    )
    self._cohort = bounds.range_ends(parts.clients_per_round)[1]
    self._computations = build_computations(spec, parts.task, parts.cache)

  def start(self) -> CorrectionRecord:
    number = self._task.num_clients
    return CorrectionRecord(
      iterations=0,
      is_done=False,
      weights=_flatten(self._initial),
      labels={},
      dimensions=np.zeros(number),
      levels=np.zeros(number),
      is_noisy=np.zeros(number, bool),
    )

  def pack_weights(self, weights: Sequence[np.ndarray]) -> Weights:
    """Returns model weights; `weights` is a flat list of the trainable ones."""
    return tff.learning.models.ModelWeights(
      tf.nest.pack_sequence_as(self._initial.trainable, list(weights)),
      self._initial.non_trainable,
    )

  def iterate(self, record: CorrectionRecord) -> CorrectionRecord:
    """Returns the record after one more iteration of the first stage."""
    spec, task = self._spec, self._relabel(record)
    mu = noisy_labels.proximal_weights(record.levels, spec.correction_proximal)
    weights = self.pack_weights(record.weights)
    dimensions = np.full(task.num_clients, np.nan)
    losses: dict[int, np.ndarray] = {}
    with client_data.open_datasets(task) as (train_data, *_):
      for cohort in self._cohorts(record.iterations):
        interruption.check()
        weights, rows = self._computations["correct"](
          weights,
          record.iterations,
          [mu[k] for k in cohort],
          train_data(cohort),
        )
        for k, probabilities in _split_by_client(rows):
          dimensions[k] = noisy_labels.mean_dimension(
            probabilities, spec.correction_neighbors
          )
          losses[k] = noisy_labels.losses(probabilities, task.train.load(k)[1])
      cumulative = record.dimensions + dimensions
      is_noisy = noisy_labels.noisy_clients(cumulative)
      levels = np.zeros(task.num_clients)
      for k in np.flatnonzero(is_noisy).tolist():
        levels[k] = noisy_labels.noise_level(losses[k])
      found = self._predictions(weights, is_noisy, train_data)
    labels = {
      k: noisy_labels.relabel(
        task.train.load(k)[1],
        probabilities,
        spec.correction_confidence,
        noisy_labels.suspects(losses[k], levels[k], spec.correction_share),
      )
      for k, probabilities in found
    }
    return dataclasses.replace(
      record,
      iterations=record.iterations + 1,
      weights=_flatten(weights),
      labels={**record.labels, **labels},
      dimensions=cumulative,
      levels=levels,
      is_noisy=is_noisy,
    )

  def finetune(self, record: CorrectionRecord) -> CorrectionRecord:
    spec, task = self._spec, self._relabel(record)
    if not spec.correction_finetuning:
      return dataclasses.replace(record, is_done=True)
    clean = np.flatnonzero(record.levels <= spec.correction_clean)
    size = min(self._cohort, len(clean))
    fedavg = self._computations
    state = fedavg["set_model_weights"](
      fedavg["initialize"](), self.pack_weights(record.weights)
    )
    with client_data.open_datasets(task) as (train_data, *_):
      for round_num in range(spec.correction_finetuning):
        interruption.check()
        random = seeds.generator(spec.seed, _FINETUNING, round_num)
        cohort = np.sort(random.choice(clean, size, replace=False)).tolist()
        state = fedavg["next"](state, train_data(cohort)).state
      weights = fedavg["get_model_weights"](state)
      found = self._predictions(weights, record.is_noisy, train_data)
    labels = {
      k: noisy_labels.relabel(
        task.train.load(k)[1], probabilities, spec.correction_confidence
      )
      for k, probabilities in found
    }
    return dataclasses.replace(
      record,
      is_done=True,
      weights=_flatten(weights),
      labels={**record.labels, **labels},
    )

  def _relabel(self, record: CorrectionRecord) -> tasks.Task:
    return label_noise.with_labels(self._task, record.labels)

  def _cohorts(self, iteration: int) -> Iterator[list[int]]:
    """Yields the cohorts of an iteration; each client is in exactly one."""
    random = seeds.generator(self._spec.seed, _ITERATIONS, iteration)
    order = random.permutation(self._task.num_clients)
    size = self._spec.correction_cohort
    for start in range(0, len(order), size):
      yield np.sort(order[start : start + size]).tolist()

  def _predictions(
    self,
    weights: Weights,
    is_noisy: np.ndarray,
    train_data: client_data.ClientDatasets,
  ) -> list[tuple[int, np.ndarray]]:
    """Returns noisy clients' ids, and the model's predictions for each."""
    found: list[tuple[int, np.ndarray]] = []
    ids = np.flatnonzero(is_noisy).tolist()
    for start in range(0, len(ids), _CLIENTS_PER_CALL):
      interruption.check()
      part = ids[start : start + _CLIENTS_PER_CALL]
      rows = self._computations["predict"](weights, train_data(part))
      found += _split_by_client(rows)
    return found


def _split_by_client(
  rows: Mapping[str, np.ndarray],
) -> list[tuple[int, np.ndarray]]:
  """Returns each client's id and predictions, from rows in the order of ids."""
  ids, starts = np.unique(rows["client_id"], return_index=True)
  parts = np.split(rows["probabilities"], starts[1:])
  return list(zip(ids.tolist(), parts, strict=True))


def _flatten(weights: Weights) -> list[np.ndarray]:
  return [np.array(w) for w in tf.nest.flatten(weights.trainable)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorrectionRecord:
  """The progress and the results of label correction, for K clients.

  A run resumes from the record in `label_correction.npz`; the CSV file that
  `write_table` writes is for people.
  """

  iterations: int  # Completed iterations of the first stage.
  is_done: bool  # Whether the second stage is complete.
  weights: Sequence[np.ndarray]  # The trainable weights, as a flat list.
  labels: Mapping[int, np.ndarray]  # New labels by client id.
  dimensions: np.ndarray  # float64[K], summed over iterations; NaN if unknown.
  levels: np.ndarray  # float64[K], estimated shares of wrong labels.
  is_noisy: np.ndarray  # bool[K].


def save(folder: RunFolder, record: CorrectionRecord) -> None:
  """Writes a record into the run's folder; replaces the previous one."""
  folder.check_place()
  array_files.write(
    folder.label_correction,
    {
      "iterations": np.int64(record.iterations),
      "is_done": np.bool_(record.is_done),
      **{name: getattr(record, name) for name in _COLUMNS},
      **{f"{_WEIGHT}{i}": w for i, w in enumerate(record.weights)},
      **{f"{_LABELS}{k}": y for k, y in record.labels.items()},
    },
  )


def load(folder: RunFolder) -> CorrectionRecord | None:
  """Returns the record in a run's folder, if there is one."""
  path = folder.label_correction
  if not path.exists():
    return None
  with array_files.read(
    path, "Move it away, and the run corrects the labels again."
  ) as arrays:
    number = sum(name.startswith(_WEIGHT) for name in arrays)
    return CorrectionRecord(
      iterations=int(arrays["iterations"]),
      is_done=bool(arrays["is_done"]),
      weights=[arrays[f"{_WEIGHT}{i}"] for i in range(number)],
      labels={
        int(name.removeprefix(_LABELS)): y
        for name, y in arrays.items()
        if name.startswith(_LABELS)
      },
      **{name: arrays[name] for name in _COLUMNS},
    )


def write_table(
  folder: RunFolder, task: tasks.Task, record: CorrectionRecord
) -> None:
  """Writes a table of each client's estimated noise and changed labels."""
  table = pd.DataFrame(
    {
      "client_id": range(task.num_clients),
      "client": [str(name) for name in task.client_names],
      "num_examples": task.train.num_examples,
      "dimension": record.dimensions / record.iterations,
      "noisy": record.is_noisy,
      "noise_level": record.levels,
      "labels_changed": [
        _num_changed(task, record, k) for k in range(task.num_clients)
      ],
    }
  )
  if task.train.true_labels is not None:
    after = label_noise.with_labels(task, record.labels).train
    for name, split in (("before", task.train), ("after", after)):
      table[f"wrong_labels_{name}"] = [
        label_noise.wrong_share(split, k) for k in range(task.num_clients)
      ]
  folder.check_place()
  atomic.write(folder.label_corrections, csv_cells.csv_text(table))


def _num_changed(
  task: tasks.Task, record: CorrectionRecord, client_id: int
) -> int:
  if client_id not in record.labels:
    return 0
  before = task.train.load(client_id)[1]
  return int(np.count_nonzero(record.labels[client_id] != before))


def describe(task: tasks.Task, record: CorrectionRecord) -> str:
  """Returns a phrase with the numbers of noisy clients and changed labels."""
  changed = sum(_num_changed(task, record, k) for k in record.labels)
  return (
    f"{np.count_nonzero(record.is_noisy):,} of {task.num_clients:,} clients "
    f"noisy, {changed:,} of {task.train.num_examples.sum():,} labels changed"
  )
