r"""Repeats FLamby's benchmark on four hospitals, and compares the results.

  python -m benchmarks.flamby_heart --heart=heart_disease_4hospitals.tar.gz \
    --results=DIR

DIR has FLamby's `heart_seed*.csv`, one file per seed. As in FLamby, columns 10
to 12 and rows with missing values are dropped, columns 2 and 6 are one-hot
without the first value, each hospital keeps 34 % of its rows for testing, and
features are normalized by the hospital's training rows. A logistic regression
trains in batches of 4 with FLamby's rates: FedAvg and FedAdagrad for 15 rounds
of 100 local steps, single hospitals for 50 epochs of Adam. FLamby's FedAdagrad
has a momentum of 0.9, and starts with a preconditioner of 0.

Seeds determine initial weights and batches, which differ from FLamby's. The
table has means and standard deviations of accuracies over seeds, and this
project's mean minus FLamby's, divided by the standard error of the difference.
"""

import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import tensorflow as tf
import tensorflow_federated as tff
from absl import flags
from sklearn import model_selection

import tff_fair
from benchmarks import measure
from tasks.federations import readers
from tff_fair import runtime

_HEART = flags.DEFINE_string("heart", "", "The archive of the hospitals.")
_RESULTS = flags.DEFINE_string("results", "", "The folder of FLamby's results.")
_SEEDS = flags.DEFINE_integer("seeds", 5, "How many seeds to run here.")

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
_ROUNDS, _STEPS, _EPOCHS, _BATCH = 15, 100, 50, 4
_MOMENTUM, _TAU = 0.9, 1e-8

_Arrays: TypeAlias = tuple[np.ndarray, np.ndarray]
_Weights: TypeAlias = list[np.ndarray]
# Maps the weights before a round and FedAvg's weights after it to new weights.
_ServerStep: TypeAlias = Callable[[_Weights, _Weights], _Weights]


def read_halves(source: pathlib.Path) -> Iterator[tuple[_Arrays, _Arrays]]:
  """Yields the training and the test rows of each hospital."""
  frame = readers.read_hospitals(source)
  frame = frame.drop(columns=["slope", "vessels", "thal"]).dropna()
  frame = pd.get_dummies(
    frame, columns=["pain", "ecg"], drop_first=True, dtype=float
  )
  for hospital in HOSPITALS:
    rows = frame[frame["hospital"] == hospital]
    y = rows["disease"].to_numpy(np.int32)
    x = rows.drop(columns=["hospital", "disease"]).to_numpy(float)
    train, test = model_selection.train_test_split(
      np.arange(len(y)),
      test_size=0.34,
      train_size=0.66,
      random_state=43,
      stratify=y if np.bincount(y).min() > 2 else None,
    )
    std = x[train].std(axis=0, ddof=1)
    x = (x - x[train].mean(axis=0)) / np.where(std > 0, std, 1)
    x = x.astype(np.float32)
    yield (x[train], y[train]), (x[test], y[test])


def _model(width: int) -> tff.learning.models.FunctionalModel:
  """Returns a logistic regression."""

  @tf.function
  def predict(weights: Any, x: tf.Tensor, training: bool) -> tf.Tensor:
    del training
    kernel, bias = weights[0]
    return x @ kernel + bias

  def loss(
    output: tf.Tensor, label: tf.Tensor, sample_weight: Any = None
  ) -> tf.Tensor:
    del sample_weight
    return tf.reduce_mean(
      tf.nn.sigmoid_cross_entropy_with_logits(
        tf.cast(label, tf.float32), output[:, 0]
      )
    )

  return tff.learning.models.FunctionalModel(
    initial_weights=(
      (np.zeros((width, 1), np.float32), np.zeros(1, np.float32)),
      (),
    ),
    predict_on_batch_fn=predict,
    loss_fn=loss,
    input_spec=(
      tf.TensorSpec([None, width], tf.float32),
      tf.TensorSpec([None], tf.int32),
    ),
  )


def _first_weights(width: int, seed: int) -> _Weights:
  """Returns initial weights, drawn as in PyTorch's linear layer."""
  rng, limit = np.random.default_rng(seed), 1 / np.sqrt(width)
  draws = rng.uniform(-limit, limit, (width + 1, 1)).astype(np.float32)
  return [draws[:-1], draws[-1]]


def _train(
  process: tff.learning.templates.LearningProcess,
  clients: list[_Arrays],
  rounds: int,
  seed: int,
  step: _ServerStep,
) -> _Weights:
  """Returns the weights after `rounds` rounds with all clients."""
  # The client's id seeds the order of examples.
  data = [
    tff_fair.client_dataset(100 * seed + k, tf.data.Dataset.from_tensors(rows))
    for k, rows in enumerate(clients)
  ]
  weights = _first_weights(clients[0][0].shape[1], seed)
  state = process.initialize()
  for _ in range(rounds):
    state = process.set_model_weights(
      state, tff.learning.models.ModelWeights(tuple(weights), ())
    )
    state = process.next(state, data).state
    after = [np.asarray(w) for w in state.global_model_weights.trainable]
    weights = step(weights, after)
  return weights


def _adagrad(rate: float) -> _ServerStep:
  """Returns FLamby's FedAdagrad step, which keeps state between its calls."""
  first, second = [0.0, 0.0], [0.0, 0.0]

  def step(before: _Weights, after: _Weights) -> _Weights:
    found = []
    for k, (old, new) in enumerate(zip(before, after, strict=True)):
      delta = new - old
      first[k] = _MOMENTUM * first[k] + (1 - _MOMENTUM) * delta
      second[k] = second[k] + delta**2
      found.append(old + rate * first[k] / (np.sqrt(second[k]) + _TAU))
    return [w.astype(np.float32) for w in found]

  return step


def _accuracy(weights: _Weights, test: _Arrays) -> float:
  x, y = test
  kernel, bias = weights
  return float(np.mean(((x @ kernel + bias)[:, 0] > 0) == y))


def accuracies(
  halves: list[tuple[_Arrays, _Arrays]], seeds: range
) -> pd.DataFrame:
  """Trains all models; returns accuracies by strategy, hospital and seed."""
  train, test = zip(*halves, strict=True)
  model = _model(train[0][0].shape[1])

  def process(
    optimizer: tff.learning.optimizers.Optimizer, **work: Any
  ) -> tff.learning.templates.LearningProcess:
    return tff_fair.algorithms.build(
      "fedavg",
      model,
      client_optimizer=optimizer,
      batch_size=_BATCH,
      shuffle_seed=0,
      **work,
    )

  def sgd(rate: float) -> tff.learning.templates.LearningProcess:
    optimizer = tff.learning.optimizers.build_sgdm(rate)
    return process(optimizer, local_steps=_STEPS)

  def same(before: _Weights, after: _Weights) -> _Weights:
    del before
    return after

  adam = tff.learning.optimizers.build_adam(0.001, epsilon=1e-8)
  by_itself = process(adam, local_epochs=_EPOCHS)
  averaging, adaptive = sgd(0.001), sgd(0.003162)
  rows = []
  for seed in seeds:
    fedavg = _train(averaging, train, _ROUNDS, seed, same)
    adagrad = _train(adaptive, train, _ROUNDS, seed, _adagrad(0.316228))
    models = {
      "FedAvg100": [fedavg] * 4,
      "FedAdagrad100": [adagrad] * 4,
      "Local": [_train(by_itself, [rows_], 1, seed, same) for rows_ in train],
    }
    rows += [
      (strategy, hospital, seed, _accuracy(weights[k], test[k]))
      for strategy, weights in models.items()
      for k, hospital in enumerate(HOSPITALS)
    ]
  return pd.DataFrame(
    rows, columns=["strategy", "hospital", "seed", "accuracy"]
  )


def read_results(folder: pathlib.Path) -> pd.DataFrame:
  """Returns FLamby's accuracies, with the columns of `accuracies`."""
  found = pd.concat(map(pd.read_csv, sorted(folder.glob("heart_seed*.csv"))))
  center = found["Test"].str.extract(r"client_test_(\d)")[0]
  found = found.assign(center=center).dropna(subset=["center"])
  of_itself = found["Method"] == "Local " + found["center"]
  return pd.DataFrame(
    {
      "strategy": found["Method"].mask(of_itself, "Local"),
      "hospital": [HOSPITALS[int(k)] for k in found["center"]],
      "seed": found["seed"],
      "accuracy": found["Metric"],
    }
  )


def table(theirs: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
  """Compares FLamby's accuracies with ours, by strategy and hospital."""

  def summarize(rows: pd.DataFrame) -> pd.DataFrame:
    by = rows.groupby(["strategy", "hospital"], sort=False)["accuracy"]
    return by.agg(["mean", "std", "count"])

  both = summarize(ours).join(summarize(theirs), rsuffix="_flamby")
  variance = both["std"] ** 2 / both["count"]
  variance += both["std_flamby"] ** 2 / both["count_flamby"]
  return both.assign(
    z_score=(both["mean"] - both["mean_flamby"]) / np.sqrt(variance)
  )


def main() -> None:
  """Prints FLamby's accuracies and ours as a table; exits without data."""
  source, folder = pathlib.Path(_HEART.value), pathlib.Path(_RESULTS.value)
  if not source.is_file() or not [*folder.glob("heart_seed*.csv")]:
    sys.exit(
      "Skipped: --heart is not a file, or --results has no heart_seed*.csv."
    )
  runtime.use_default()
  ours = accuracies([*read_halves(source)], range(_SEEDS.value))
  print("| strategy | hospital | FLamby | here | difference / error |")
  print("|---|---|---|---|---|")
  for (strategy, hospital), row in table(read_results(folder), ours).iterrows():
    print(
      f"| {strategy.removesuffix('100')} | {hospital} | "
      f"{row['mean_flamby']:.3f} ± {row['std_flamby']:.3f} | "
      f"{row['mean']:.3f} ± {row['std']:.3f} | {row['z_score']:+.1f} |"
    )


if __name__ == "__main__":
  measure.run(main)
