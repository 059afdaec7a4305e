"""FLamby's rows on the four hospitals, with our FedAvg and FedAdagrad.

  python -m benchmarks.flamby_heart HEART RESULTS

HEART is heart_disease_4hospitals.tar.gz, RESULTS a folder of FLamby's
heart_seed*.csv. As there: columns 10 to 12 and rows with a missing value are
dropped, columns 2 and 6 are one-hot without the first value, each hospital
keeps 34 % of its rows for testing, features are normalized by the hospital's
training rows, and a logistic regression trains for 15 rounds of 100 steps of
batches of 4. The rates are FLamby's; seeds draw first weights and batches. The
table has both, means and standard deviations over five seeds.
"""

import pathlib
import sys
import tempfile
from typing import Any

import numpy as np
import pandas as pd
import tensorflow as tf
from sklearn import model_selection

from tasks.federations import heart_disease
from tff_fair.experiments import RunSpec
from tff_fair.experiments.spec import task_loading
from tff_fair.experiments.training import in_memory

_SEEDS = range(42, 47)
_ROUNDS, _STEPS, _BATCH = 15, 100, 4
_CENTERS = ("cleveland", "hungarian", "switzerland", "va")
_STRATEGIES: dict[str, dict[str, Any]] = {
  "FedAvg100": {"client_learning_rate": 0.001},
  "FedAdagrad100": {
    "client_learning_rate": 0.003162,
    "server_optimizer": "adagrad",
    "server_learning_rate": 0.316228,
  },
}


def logistic(input_shape: tuple[int, ...], seed: int = 0) -> tf.keras.Model:
  """Returns PyTorch's linear layer of one output, beside a logit of 0."""
  limit = 1 / np.sqrt(input_shape[0])
  x = tf.keras.Input(input_shape)
  first, second = (
    tf.keras.initializers.RandomUniform(-limit, limit, seed + k)
    for k in (0, 1000)
  )
  logit = tf.keras.layers.Dense(
    1, kernel_initializer=first, bias_initializer=second
  )(x)
  zero = tf.keras.layers.Rescaling(0.0)(logit)
  return tf.keras.Model(x, tf.keras.layers.Concatenate()([zero, logit]))


def write_arrays(source: pathlib.Path, path: pathlib.Path) -> None:
  """Writes FLamby's examples and split as the task arrays reads them."""
  frame = heart_disease.read_hospitals(source)
  frame = frame.drop(columns=["slope", "vessels", "thal"]).dropna()
  frame = pd.get_dummies(
    frame, columns=["pain", "ecg"], drop_first=True, dtype=float
  )
  parts = []
  for center in _CENTERS:
    rows = frame[frame["hospital"] == center]
    y = rows["disease"].to_numpy()
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
    split = np.where(np.isin(np.arange(len(y)), test), "test", "train")
    parts.append((x, y, np.full(len(y), center), split))
  x, y, client, split = map(np.concatenate, zip(*parts, strict=True))
  np.savez(path, x=x.astype(np.float32), y=y, client=client, split=split)


def main(source: str, results: str) -> None:
  """Prints the table."""
  theirs = pd.concat(
    [pd.read_csv(p) for p in sorted(pathlib.Path(results).glob("*seed*.csv"))]
  )
  cache = in_memory.ProgramCache()
  print("| strategy | hospital | test rows | FLamby | here |")
  print("|---|---|---|---|---|")
  with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "heart.npz")
    write_arrays(pathlib.Path(source), path)
    for name, settings in _STRATEGIES.items():
      found = []
      for seed in _SEEDS:
        spec = RunSpec(
          task="arrays",
          task_options={"file": str(path), "min_examples": 1},
          model=f"{__file__}:logistic",
          algorithm="fedavg",
          client_weighting="num_examples",
          sampling="all",
          total_rounds=_ROUNDS,
          rounds_per_evaluation=_ROUNDS,
          batch_size=_BATCH,
          local_steps=_STEPS,
          seed=seed,
          **settings,
        )
        task = task_loading.load(spec)
        found.append(in_memory.evaluate_trained(spec, task, cache).clients)
      for k, center in enumerate(_CENTERS):
        ours = np.array([clients["accuracy"][k] for clients in found])
        of_theirs = theirs[
          (theirs["Method"] == name) & (theirs["Test"] == f"client_test_{k}")
        ]["Metric"]
        print(
          f"| {name} | {center} | {found[0]['num_examples'][k]} | "
          f"{of_theirs.mean():.3f} ± {of_theirs.std():.3f} | "
          f"{ours.mean():.3f} ± {ours.std(ddof=1):.3f} |",
          flush=True,
        )


if __name__ == "__main__":
  main(*sys.argv[1:])
