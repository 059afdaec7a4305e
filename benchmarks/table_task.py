"""Time and memory of loading a large table as the task `table`.

Makes tables of growing size in a temporary directory, from a seed: five columns
of numbers and three of categories, some fields missing, and an eighth column of
clients of power-law sizes. Loads each, beside pandas, which reads the same file
into a frame and does no more:

    python -m benchmarks.table_task --rows=100000,1000000 --clients=100000

"x pandas" is the ratio of both times in one turn; other work on the machine
slows both alike. Memory is resident: before the load, once the task is there,
and at most so far. "cohort" is the time to make the arrays of 10 clients.
"""

import argparse
import pathlib
import tempfile
import time

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import csv, parquet

import tasks
from benchmarks import measure
from tasks import cuts

_ROWS_AT_ONCE = 1_000_000
_COHORT = 10


def main() -> None:
  """Makes and loads each table, and prints a line."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
  parser.add_argument("--rows", default="10000,100000,1000000")
  parser.add_argument("--clients", type=int, default=100_000)
  parser.add_argument("--format", choices=("csv", "parquet"), default="csv")
  flags = parser.parse_args()
  tasks.load("digits")  # Imports TensorFlow.
  print(
    "rows        clients   file MB  load s  x pandas  cohort ms"
    "  MiB before   after    peak"
  )
  for rows in map(int, flags.rows.split(",")):
    with tempfile.TemporaryDirectory() as directory:
      path = pathlib.Path(directory) / f"rows.{flags.format}"
      _write(path, rows, min(flags.clients, rows // 10))
      _measure(path, rows)


def _measure(path: pathlib.Path, rows: int) -> None:
  before = measure.current_memory_mb()
  start = time.perf_counter()
  task = tasks.load("table", file=str(path), client="site")
  load_seconds = time.perf_counter() - start
  after, peak = measure.current_memory_mb(), measure.peak_memory_mb()
  start = time.perf_counter()
  for client in cuts.generator(1).integers(task.num_clients, size=_COHORT):
    task.train.load(int(client))
  cohort_seconds = time.perf_counter() - start
  num_clients = task.num_clients
  del task
  start = time.perf_counter()
  frame = (pd.read_csv if path.suffix == ".csv" else pd.read_parquet)(path)
  ratio = load_seconds / (time.perf_counter() - start)
  assert len(frame) == rows
  print(
    f"{rows:<11,} {num_clients:<9,} {path.stat().st_size / 1e6:7.1f} "
    f"{load_seconds:7.2f}  {ratio:8.2f}  {1000 * cohort_seconds:9.1f}  "
    f"{before:10.0f} {after:7.0f} {peak:7.0f}",
    flush=True,
  )


def _write(path: pathlib.Path, rows: int, clients: int) -> None:
  rng = cuts.generator(0)
  first = _some_rows(rng, 1, clients)
  writer = (
    csv.CSVWriter(path, first.schema)
    if path.suffix == ".csv"
    else parquet.ParquetWriter(path, first.schema)
  )
  with writer:
    for start in range(0, rows, _ROWS_AT_ONCE):
      writer.write_table(
        _some_rows(rng, min(_ROWS_AT_ONCE, rows - start), clients)
      )


def _some_rows(rng: np.random.Generator, count: int, clients: int) -> pa.Table:
  columns: dict[str, pa.Array] = {}
  # Squares of uniform numbers: small clients are many, large ones few.
  client = (clients * rng.random(count) ** 2).astype(np.int64)
  columns["site"] = pa.array(np.char.add("site ", client.astype(str)))
  for k in range(5):
    numbers = np.round(10.0**k * rng.standard_normal(count), 3)
    columns[f"number {k}"] = pa.array(numbers, mask=rng.random(count) < 0.05)
  for k, size in enumerate((2, 10, 100)):
    texts = np.char.add(
      f"kind {k} ", rng.integers(size, size=count).astype(str)
    )
    columns[f"category {k}"] = pa.array(texts, mask=rng.random(count) < 0.05)
  columns["label"] = pa.array(rng.integers(3, size=count))
  return pa.table(columns)


if __name__ == "__main__":
  main()
