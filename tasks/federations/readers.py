"""Functions that read the data of the benchmark's federations.

They accept the files that the federations' owners publish, and the copies from
which published results were computed; both give the same tables.
"""

import decimal
import io
import pathlib
import re
from collections.abc import Callable

import numpy as np
import pandas as pd

from tasks import adult
from tasks.federations.federation import Source, files_in, from_cells, from_r
from tasks.formats import leaf_json, mnist


def named(frame: pd.DataFrame, **patterns: str) -> pd.DataFrame:
  """Turns numbers into names, by the format strings `patterns` of columns."""
  names = {c: [p.format(k) for k in frame[c]] for c, p in patterns.items()}
  return frame.assign(**names)


def table_of_r(
  package: str, name: str, *dropped: str, **patterns: str
) -> Callable[[Source], pd.DataFrame]:
  """Returns a reader of an R data set that drops columns and calls `named`."""
  return lambda _: named(
    from_r(package, name).drop(columns=[*dropped]), **patterns
  )


_HEART_COLUMNS = (
  *("age", "sex", "pain", "pressure", "cholesterol", "sugar", "ecg"),
  *("rate", "angina", "depression", "slope", "vessels", "thal", "disease"),
)


def read_hospitals(source: Source) -> pd.DataFrame:
  """Returns the rows of all hospitals, missing values included."""
  assert source is not None
  tables = []
  for name, file in files_in(source, "processed.*.data").items():
    table = pd.read_csv(file, names=_HEART_COLUMNS, na_values="?")
    tables.append(table.assign(hospital=name.split(".")[-2]))
  frame = pd.concat(tables)
  return frame.assign(disease=(frame["disease"] > 0).astype(int))


def read_vehicle(source: Source) -> pd.DataFrame:
  """Reads Ditto's JSON file, or a copy as npz with x, y and user."""
  assert source is not None
  if source.suffix == ".json":
    of_users = dict(leaf_json.read_users(source))
    users = [of_users[name] for name in sorted(of_users)]
    x = np.concatenate([np.asarray(user["x"]) for user in users])
    y = np.concatenate([np.asarray(user["y"]) for user in users])
    number = np.repeat(range(len(users)), [len(user["y"]) for user in users])
  else:
    with np.load(source) as found:
      x, y, number = (found[key] for key in ("x", "y", "user"))
  return (
    pd.DataFrame(x)
    .add_prefix("x")
    .assign(
      sensor=[f"sensor_{k:02}" for k in number],
      heavy=(y.ravel() > 0).astype(int),
    )
  )


_COMMUNITIES_NAMES = ("county", "community", "communityname string", "fold")


def read_communities(source: Source) -> pd.DataFrame:
  """Reads UCI's data and names, or a table that begins with the names."""
  assert source is not None
  file = _table_in(source, "communities.data")
  names = None  # A single file begins with them.
  if file != source:
    (described,) = files_in(source, "communities.names").values()
    names = re.findall(
      r"^@attribute (\w+(?: string)?)", described.read().decode("latin-1"), re.M
    )
  frame = pd.read_csv(file, names=names, na_values="?")
  frame = frame.drop(columns=[*_COMMUNITIES_NAMES])
  state, crimes = frame.columns[0], frame.columns[-1]
  # Drops columns with two or more missing values; most communities lack these.
  frame = frame.dropna(axis=1, thresh=len(frame) - 1)
  frame = frame.rename(columns={state: "state", crimes: "crimes"})
  return named(frame, state="state_{:02}")


def _table_in(source: pathlib.Path, name: str) -> pathlib.Path | io.BytesIO:
  """Returns a text file itself, or the file `name` of a folder or archive."""
  suffixes = {".csv", ".tsv", ".data"}
  if source.is_file() and not suffixes.isdisjoint(source.suffixes):
    return source
  (file,) = files_in(source, name).values()
  return file


def read_landmine(source: Source) -> pd.DataFrame:
  """Reads the cell arrays `feature` and `label`, with a cell per field."""
  from scipy import io  # noqa: PLC0415

  found = io.loadmat(source)
  return from_cells(found["feature"].ravel(), found["label"].ravel(), "field")


def read_parkinsons(source: Source) -> pd.DataFrame:
  """Reads UCI's table, or a copy that is separated by tabs."""
  assert source is not None
  file = _table_in(source, "parkinsons_updrs.data")
  separator = "\t" if ".tsv" in source.suffixes else ","
  frame = pd.read_csv(file, sep=separator).drop(columns="motor_UPDRS")
  # Published results are from a copy that rounds small numbers in this column.
  jitter, rounding = "Jitter(Abs)", decimal.Context(3, decimal.ROUND_HALF_UP)
  frame[jitter] = [
    float(rounding.create_decimal(repr(v))) if v < 1e-4 else v
    for v in frame[jitter]
  ]
  frame = frame.rename(columns={"subject#": "patient"})
  return named(frame, patient="patient_{:02}")


def read_wisdm(source: Source) -> pd.DataFrame:
  """Reads the ARFF file of ten-second examples."""
  assert source is not None
  (file,) = files_in(source, "WISDM*.arff").values()
  lines = file.read().decode().split("@data")[1].split()
  rows = pd.DataFrame([line.split(",") for line in lines])
  x = rows.iloc[:, 2:-1].apply(pd.to_numeric, errors="coerce")
  x = x.dropna(axis=1, how="all").add_prefix("x")
  return x.assign(person="p" + rows[1], activity=rows.iloc[:, -1])


def read_contraception(_: Source) -> pd.DataFrame:
  """Returns the rows with the square of the age as a feature."""
  frame = from_r("mlmRev", "Contraception").drop(columns="woman")
  frame = frame.assign(age_squared=frame["age"] ** 2)
  return named(frame, district="district_{:02}")


def read_guimmun(_: Source) -> pd.DataFrame:
  """Returns a row per mother."""
  frame = from_r("mlmRev", "guImmun")
  # Keeps one row per mother: the first of her children in the data.
  frame = frame.drop_duplicates("mom").drop(columns=["kid", "mom"])
  return named(frame, comm="community_{}")


_ADULT_COLUMNS = (
  *("age", "workclass", "weight", "education", "years", "marital"),
  *("occupation", "relationship", "race", "sex", "gain", "loss", "hours"),
  "country",
)


def read_adult_occupations(source: Source) -> pd.DataFrame:
  """Returns the rows of both halves of Adult."""
  assert source is not None
  halves = [
    adult.read(adult.find(source, name), "value")
    for name in ("adult.data", "adult.test")
  ]
  rows = np.concatenate([half.rows for half in halves])
  labels = np.concatenate([half.labels for half in halves])
  return (
    pd.DataFrame(rows, columns=_ADULT_COLUMNS)
    .drop(columns=["weight", "education"])
    .replace({"?": "unknown"})
    .assign(income=np.where(labels, ">50K", "<=50K"))
  )


def read_ilea_schools(source: Source) -> pd.DataFrame:
  """Reads the cell arrays `X` and `Y`, with a cell per school."""
  from scipy import io  # noqa: PLC0415

  found = io.loadmat(source)
  return from_cells(found["X"].ravel(), found["Y"].ravel(), "school")


def read_egsingle(_: Source) -> pd.DataFrame:
  """Returns a row per child."""
  frame = from_r("mlmRev", "egsingle")
  # Keeps one row per child: that of the last year.
  frame = frame.sort_values("year", kind="stable").groupby("childid").tail(1)
  frame = frame.drop(columns="childid").sort_values(["schoolid", "math"])
  return named(frame, schoolid="school_{}")


def read_star(_: Source) -> pd.DataFrame:
  """Returns a row per pupil."""
  frame = from_r("mlmRev", "star")
  # Keeps one row per pupil: that of the third grade.
  frame = frame[frame["gr"] == "3"].dropna(subset="math")
  frame = frame.drop(columns=["id", "gr", "tch", "birthq", "read"])
  return named(frame, sch="school_{:02}")


def read_qmnist_writers(source: Source) -> pd.DataFrame:
  """Returns all digits of MNIST with their writers."""
  assert source is not None
  halves = mnist.read_halves(source, what="MNIST")
  writers = mnist.read_writers(source, [half.labels for half in halves])
  images = np.concatenate([half.images for half in halves])
  # Sums of 2 x 2 pixels; a quarter of the features takes a quarter of the time.
  squares = images.reshape(-1, 14, 2, 14, 2).sum((2, 4))
  frame = pd.DataFrame(squares.reshape(len(images), -1)).add_prefix("x")
  return named(
    frame.assign(
      writer=writers, digit=np.concatenate([half.labels for half in halves])
    ),
    writer="writer_{:04}",
  )
