"""Tests that each documented kind of data works with flags and in Python."""

import bz2
import gzip
import lzma

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import tasks
from binaries import prepare_data, train
from tests.binaries import in_process
from tests.cases import one_of_each
from tests.tasks import client_files, tabular_data, tfds_data
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.training import build

pytestmark = pytest.mark.slow

TABLE = {"client": "clinic", "label": "ill"}
CLINICS = ["north", "south", "west"]
# A user's task function, for data that only Python code can load.
FUNCTION = """
import numpy as np
import pandas as pd
import tasks

def build(input_shape, num_classes):
  import tensorflow as tf
  return tf.keras.Sequential(
    [tf.keras.layers.Dense(num_classes, input_shape=input_shape)]
  )

def mapping() -> tasks.Task:
  x, y = np.eye(6, dtype=np.float32), np.arange(6) % 2
  return tasks.from_client_data({"north": (x, y), "south": (x, y)}, 0.5, build)

def table() -> tasks.Task:
  frame = pd.DataFrame({"clinic": ["north", "south"] * 6, "age": range(12)})
  frame["label"] = frame["age"] % 3 == 0
  return tasks.from_client_data(frame, 0.5, build, client="clinic")

def client_data() -> tasks.Task:
  import tensorflow_federated as tff
  examples = {"x": np.eye(6, dtype=np.float32), "y": np.arange(6) % 2}
  data = tff.simulation.datasets.TestClientData(
    {"north": examples, "south": examples}
  )
  return tasks.from_client_data(data, 0.5, build)
"""


def csv(folder, name, pack=bytes):
  path = folder / name
  tabular_data.write_table(folder)
  path.write_bytes(pack((folder / "patients.csv").read_bytes()))
  return "table", {"file": path.name, **TABLE}, CLINICS


def parquet(folder):
  header, rows = tabular_data.patients()
  frame = pd.DataFrame(rows, columns=header)  # All columns are strings.
  frame.to_parquet(folder / "patients.parquet")
  return "table", {"file": "patients.parquet", **TABLE}, CLINICS


def arrays(folder):
  tabular_data.write_arrays(folder)
  return "arrays", {"file": "examples.npz"}, ["a", "b", "c"]


def leaf(folder):
  tabular_data.write_leaf(folder)
  return "leaf", {}, ["f_0", "f_1"]


def sqlite(folder):
  client_files.write(folder / "some.sqlite", client_files.images())
  options = {"file": "some.sqlite", "model": "mlp"}
  return "client_data", options, ["north", "south"]


def pictures(folder):
  for k in range(24):
    path = folder / f"pictures/{'ns'[k % 2]}/{'ab'[k // 2 % 2]}/{k}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    image = np.full([4, 4, 3], 10 * k, np.uint8)
    path.write_bytes(tf.io.encode_png(image).numpy())
  path.with_suffix(".webp").write_bytes(b"RIFF")
  done = in_process.run(
    prepare_data, "--convert=images", "--source=pictures", "--data_dir=."
  )
  assert "Classes: 0 a, 1 b." in done.stdout
  assert "Left out 1: file .webp" in done.stdout
  return "client_data", {"file": "images.sqlite", "model": "mlp"}, ["n", "s"]


def prepared(folder):
  tfds_data.write_images(folder)
  options = {"name": "shades", "client": "writer"}
  return "tfds", options, ["0", "1", "2", "3", "4"]


def function(folder, name):
  (folder / "mine.py").write_text(FUNCTION)
  return f"mine.py:{name}", {}, ["north", "south"]


INPUTS = {
  "csv": lambda folder: csv(folder, "rows.csv"),
  "csv.gz": lambda folder: csv(folder, "rows.csv.gz", gzip.compress),
  "csv.bz2": lambda folder: csv(folder, "rows.csv.bz2", bz2.compress),
  "csv.xz": lambda folder: csv(folder, "rows.csv.xz", lzma.compress),
  "csv.zip": lambda folder: csv(
    folder, "rows.zip", lambda rows: tabular_data.zipped(rows, "patients.csv")
  ),
  "parquet": parquet,
  "arrays": arrays,
  "leaf": leaf,
  "sqlite": sqlite,
  "pictures": pictures,
  "tfds": prepared,
  "mapping": lambda folder: function(folder, "mapping"),
  "pandas": lambda folder: function(folder, "table"),
  "ClientData": lambda folder: function(folder, "client_data"),
}


PACKED = ("csv.gz", "csv.bz2", "csv.xz", "csv.zip")


@pytest.mark.parametrize(
  "kind",
  one_of_each(INPUTS, kind=lambda kind: "packed" if kind in PACKED else kind),
)
def test_a_documented_input_is_read_by_flag_and_in_python(
  kind, tmp_path, monkeypatch
):
  monkeypatch.chdir(tmp_path)
  given = []

  def given_to(spec, task, cache):
    del spec, cache
    given.append(task)
    raise RunError("ends before training")

  monkeypatch.setattr(build, "run_parts", given_to)
  task, options, clients = INPUTS[kind](tmp_path)
  done = in_process.run(
    train,
    f"--task={task}",
    *(f"--task_option={name}={value}" for name, value in options.items()),
    "--data_dir=.",
    "--algorithm=fedavg",
    "--sampling=all",
    "--total_rounds=1",
    "--output_dir=run",
  )
  (by_flag,) = given
  in_python = tasks.load(task, data_dir=tmp_path, **options)
  assert [*by_flag.client_names] == [*in_python.client_names] == clients
  for part in ("train", "test"):
    for a, b in zip(
      getattr(by_flag, part).load(0),
      getattr(in_python, part).load(0),
      strict=True,
    ):
      np.testing.assert_array_equal(a, b)
  assert "ends before training" in done.stderr
