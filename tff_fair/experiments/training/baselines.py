"""Trains a federation's baselines: a model per client, and one on pooled data.

Both kinds start from the run's initial model and train by the run's local work,
without the server.

- Alone, a client selects its learning rate (a quarter of the federation's
  client rate, that rate, or four times it) and its number of rounds by
  three-fold cross-validation, and trains again with these on all its training
  examples. The selection stops once the mean validation loss has not fallen for
  ten rounds, or after `max_rounds`. A client with fewer than five examples
  selects nothing: it trains at the federation's rate, for as many rounds as a
  client takes part in on average.
- On pooled data, the model trains for as many rounds as a client takes part in
  on average. The result is the model of the round with the least loss on a
  held-out fifth of the data.
"""

import contextlib
import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tasks import cuts
from tasks.task import Arrays, one_element
from tff_fair import client_works, types
from tff_fair.client_works import local_baseline
from tff_fair.experiments import interruption
from tff_fair.experiments.analysis.joining_gains import LOCAL, POOLED
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.progress import Say
from tff_fair.experiments.runs import array_files, configuration, trained_model
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.spec.settings import bounds
from tff_fair.experiments.training import build, learning_process, sampling

_HOLDOUT_SHARE = 0.2
_MIN_EXAMPLES = 5  # With fewer examples, none is held out.
RATE_FACTORS = (0.25, 1.0, 4.0)  # They multiply the client learning rate.
_PATIENCE = 10
_MOST_ROUNDS = 200
_FOLDS = 3
# The most examples that local models process, over all clients and rounds.
_MOST_EXAMPLES = 5_000_000
# Settings that affect a baseline, besides those of task and local training.
_KEY_SETTINGS = (
  *("total_rounds", "clients_per_round", "sampling", "dropout"),
  *("seed", "data_seed", "model_seed", "evaluation_clients", "model"),
  *("unseen_clients", "validation_fraction"),
)


class Baseline(NamedTuple):
  """The results of one baseline, with arrays over the K clients."""

  client_ids: np.ndarray  # int64[K], ascending.
  rounds: np.ndarray  # int64[K], each model's number of training rounds.
  losses: np.ndarray  # float64[K], over the clients' own training examples.
  outputs: Sequence[np.ndarray]  # For test examples, float32[examples, width].
  rates: np.ndarray  # float64[K], the learning rates that clients selected.


def train_or_load(
  folder: RunFolder, spec: RunSpec, parts: build.RunParts, say: Say
) -> dict[str, Baseline]:
  """Returns the baselines that the spec requests, by kind; trains missing ones.

  Baselines of a run with the same settings in a neighbouring folder are reused.
  """
  asked = {
    LOCAL: spec.local_baseline or spec.loss_reference == LOCAL,
    POOLED: spec.pooled_baseline,
  }
  found = {}
  for kind in (kind for kind, is_asked in asked.items() if is_asked):
    key = _key(kind, folder, spec, parts)
    place = getattr(folder, f"{kind}_baseline")
    baseline = _load(place, key)
    for other in sorted(folder.path.parent.glob(f"*/{place.name}")):
      # Other runs' files only save time, so ignore errors in them.
      with contextlib.suppress(RunError):
        baseline = baseline or _load(other, key)
    if baseline is None:
      say(f"{folder.path}: training the {kind} baseline.")
      baseline = _train(kind, spec, parts)
    folder.check_place()
    if not place.exists():
      _save(place, key, baseline)
    found[kind] = baseline
  return found


def with_loss_reference(
  spec: RunSpec, parts: build.RunParts, found: Mapping[str, Baseline]
) -> build.RunParts:
  """Returns a run's parts, changed to use loss gaps if the spec requests it.

  A gap is a client's loss minus that of its local baseline.
  """
  if spec.loss_reference != LOCAL:
    return parts
  baseline = found[LOCAL]
  built = learning_process.build(
    spec,
    parts.task,
    parts,
    loss_reference=dict(
      zip(baseline.client_ids.tolist(), baseline.losses.tolist(), strict=True)
    ),
    cache=parts.cache,
  )
  return dataclasses.replace(parts, **built._asdict())


def num_rounds(spec: RunSpec, parts: build.RunParts) -> int:
  """Returns the mean number of rounds that a client trains in, at least 1."""
  cohort = sum(bounds.range_ends(parts.clients_per_round)) / 2
  num_clients = sampling.num_participants(parts.first_rounds)
  share = cohort * (1 - spec.dropout) / num_clients
  return max(1, round(share * spec.total_rounds))


def max_rounds(spec: RunSpec, parts: build.RunParts) -> int:
  """Returns the maximum number of training rounds of a local model."""
  examples = int(parts.task.train.num_examples[parts.evaluated_ids].sum())
  # At each rate, each example is in the training data of all folds but one. In
  # the end, a model trains on all examples.
  affordable = _MOST_EXAMPLES // (
    examples * (len(RATE_FACTORS) * (_FOLDS - 1) + 1)
  )
  return max(num_rounds(spec, parts), min(_MOST_ROUNDS, affordable))


def _train(kind: str, spec: RunSpec, parts: build.RunParts) -> Baseline:
  task, factors = parts.task, RATE_FACTORS if kind == LOCAL else (1.0,)
  trainer = _Trainer(spec, parts, factors)
  pooled = trainer.train_pooled() if kind == POOLED else None
  model, rows = task.keras_model_fn(), []
  # Loss gaps need the local models of all clients, evaluated or not.
  everyone = spec.loss_reference == LOCAL
  ids = range(task.num_clients) if everyone else parts.evaluated_ids.tolist()
  for client_id in ids:
    arrays = task.train.load(client_id)
    trained, rate = pooled or trainer.train_alone(arrays, client_id)
    trained.weights.assign_weights_to(model)
    loss = trainer.loss(trained, arrays, client_id)
    outputs = trained_model.outputs(model, task.test.load(client_id)[0])
    rows.append((client_id, trained.round_num, loss, outputs, rate))
  client_ids, rounds, losses, outputs_of_clients, rates = zip(
    *rows, strict=True
  )
  return Baseline(
    np.array(client_ids, np.int64),
    np.array(rounds, np.int64),
    np.array(losses, np.float64),
    outputs_of_clients,
    np.array(rates, np.float64),
  )


_Fold = tuple[Arrays, Arrays | None]  # Training and held-out examples.


class _Trainer:
  """Trains models without a server, starting from the run's initial model."""

  def __init__(
    self, spec: RunSpec, parts: build.RunParts, rate_factors: Sequence[float]
  ) -> None:
    self._spec, self._parts = spec, parts
    name, self._rate, momentum = learning_process.client_optimizer(spec)
    self._trainings = {
      rate: local_baseline.ServerlessTraining(
        parts.task.model_fn,
        learning_process.build_optimizer(name, rate, momentum),
        client_works.TrainingSettings(**spec.local_work),
      )
      for rate in (factor * self._rate for factor in rate_factors)
    }
    initial = tff.learning.models.ModelWeights.from_model(parts.task.model_fn())
    self._initial = tf.nest.map_structure(tf.identity, initial)

  def train_pooled(self) -> tuple[local_baseline.BestModel, float]:
    """Returns the model of all clients' examples, and its learning rate."""
    folds = [split_holdout(_union(self._parts), (self._spec.seed, 0))]
    rounds = num_rounds(self._spec, self._parts)
    return self._train(self._rate, folds, 0, rounds), self._rate

  def train_alone(
    self, arrays: Arrays, client_id: int
  ) -> tuple[local_baseline.BestModel, float]:
    """Returns a client's model, and the learning rate that it selected."""
    rounds = max_rounds(self._spec, self._parts)
    rate, until = self._rate, num_rounds(self._spec, self._parts)
    if len(arrays[1]) >= _MIN_EXAMPLES:
      folds = _cross_validation_folds(arrays, (self._spec.seed, client_id))
      found = {
        each: self._train(each, folds, client_id, rounds, patience=_PATIENCE)
        for each in self._trainings
      }
      rate = min(found, key=lambda each: found[each].loss)
      until = found[rate].round_num
    whole = [(arrays, None)]
    return self._train(rate, whole, client_id, rounds, until=until), rate

  def loss(
    self, trained: local_baseline.BestModel, arrays: Arrays, client_id: int
  ) -> float:
    """Returns a model's loss on a client's examples."""
    training = self._trainings[self._rate]
    return training.loss(trained.weights, dataset(arrays, client_id))

  def _train(
    self,
    rate: float,
    folds: Sequence[_Fold],
    client_id: int,
    rounds: int,
    **options: int,
  ) -> local_baseline.BestModel:
    return self._trainings[rate].train(
      self._initial,
      [
        (
          dataset(kept, client_id),
          None if aside is None else dataset(aside, client_id),
        )
        for kept, aside in folds
      ],
      rounds,
      self._spec.total_rounds,
      interruption.check,
      **options,
    )


def _union(parts: build.RunParts) -> Arrays:
  """Returns the training examples of all clients that may take part."""
  ids = np.flatnonzero(sampling.participates(parts.first_rounds))
  arrays = [parts.task.train.load(k) for k in ids.tolist()]
  x, y = (np.concatenate(half) for half in zip(*arrays, strict=True))
  return x, y


def _cross_validation_folds(arrays: Arrays, seed: Sequence[int]) -> list[_Fold]:
  """Returns folds that each hold out a different third of the examples."""
  x, y = arrays
  order = np.random.default_rng(seed).permutation(len(y))
  return [
    ((x[kept], y[kept]), (x[aside], y[aside]))
    for part in np.array_split(order, _FOLDS)
    for aside in [np.sort(part)]
    for kept in [np.setdiff1d(order, part)]
  ]


def split_holdout(
  arrays: Arrays, seed: Sequence[int]
) -> tuple[Arrays, Arrays | None]:
  """Returns training examples, and a held-out fifth if there are enough."""
  x, y = arrays
  if len(y) < _MIN_EXAMPLES:
    return arrays, None
  kept, aside = cuts.train_test_split(
    np.arange(len(y)), _HOLDOUT_SHARE, tuple(seed)
  )
  return (x[kept], y[kept]), (x[aside], y[aside])


def dataset(arrays: Arrays, client_id: int) -> tf.data.Dataset:
  """Returns a client's examples as a dataset for its local work."""
  return types.client_dataset(client_id, one_element(arrays))


def _key(
  kind: str, folder: RunFolder, spec: RunSpec, parts: build.RunParts
) -> str:
  """Returns a digest of all that affects a baseline."""
  settings = spec.effective()
  local = {name for name in settings if name.startswith(("client_", "local_"))}
  chosen = {
    name: settings.get(name)
    for name in (*sorted(local), *_KEY_SETTINGS, "task", "batch_size")
  }
  options = {n: v for n, v in settings.items() if n.startswith("task_option.")}
  saved = folder.configuration()
  content: dict[str, object] = {
    "kind": kind,
    "gaps": spec.loss_reference,
    "rounds": (num_rounds(spec, parts), max_rounds(spec, parts)),
    "data": saved[configuration.DATA]["description"],
    "data_digests": saved.get(configuration.DATA_DIGESTS),
    "own_files": {**saved.get(configuration.OWN_FILES, {}), "algorithm": ""},
    "weights": saved.get(configuration.INITIAL_WEIGHTS),
    **chosen,
    **options,
  }
  text = json.dumps(content, sort_keys=True, default=str)
  return hashlib.sha256(text.encode()).hexdigest()


def _save(place: pathlib.Path, key: str, baseline: Baseline) -> None:
  sizes = [len(outputs) for outputs in baseline.outputs]
  arrays = baseline._asdict()
  arrays["outputs"] = np.concatenate(baseline.outputs)
  array_files.write(
    place, {"key": np.str_(key), "sizes": np.array(sizes, np.int64), **arrays}
  )


def _load(place: pathlib.Path, key: str) -> Baseline | None:
  """Returns the baseline in a file; None without a file or with another key."""
  if not place.exists():
    return None
  with array_files.read(
    place, "Move it away, and the run trains the baseline again."
  ) as arrays:
    if str(arrays.pop("key")) != key:
      return None
    ends = np.cumsum(arrays.pop("sizes"))[:-1]
    outputs = np.split(arrays.pop("outputs"), ends)
    return Baseline(**arrays, outputs=outputs)
