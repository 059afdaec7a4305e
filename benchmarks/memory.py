"""Measures memory and time of large populations and long runs.

  python -m benchmarks.memory --of=population --clients=342477 --rounds=1000
  python -m benchmarks.memory --of=run [--method=fedavg] [--large]

  population  Writes files in the formats of TFF's Stack Overflow with many
              artificial users, loads the task `stackoverflow_word`, and draws a
              random cohort's data in each round, as training does. It builds
              datasets of whole tensors, but does not train on them. Seconds of
              loading are processor time. "Blocks" are those that Python's
              allocator has added since "before", at least one for each Python
              object.
  run         Trains on the digits with 10 of 30 clients per round, which shows
              whether time and memory stay as at the beginning.

Memory is resident, in MiB; "before" means after the imports, and a peak is that
of the program so far.
"""

import dataclasses
import functools
import itertools
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator

import tensorflow_federated as tff
from absl import flags

import tasks
import tff_fair
from benchmarks import measure
from tasks import cuts, models as task_models
from tasks.conversions import client_data_writer
from tasks.formats import example_proto
from tff_fair.experiments import RunSpec
from tff_fair.experiments.training import client_data, sampling

_SUBJECT = flags.DEFINE_enum("of", None, ["population", "run"], "")
_CLIENTS = flags.DEFINE_integer("clients", 100_000, "Clients, at most.")
_ROUNDS = flags.DEFINE_integer("rounds", 1000, "Rounds.")
_METHOD = flags.DEFINE_string("method", "fedavg", "Of a run.")
_LARGE = flags.DEFINE_bool("large", False, "A run of 190,410 weights.")
flags.mark_flag_as_required("of")

_CLIENTS_PER_ROUND = 10
_NUM_WORDS = 1000
_NUM_SENTENCES = 500
_LINES_OF_RUN = 10


def _sampler(task: tasks.Task) -> sampling.Sampler:
  return sampling.Sampler(
    RunSpec(), _CLIENTS_PER_ROUND, task.train.num_examples
  )


def _population() -> None:
  """Writes the files and samples cohorts; after some rounds, prints a line."""
  _report("before")
  blocks = sys.getallocatedblocks()
  with tempfile.TemporaryDirectory() as directory:
    _write_population(pathlib.Path(directory), _CLIENTS.value)
    _report("file built")
    start = time.process_time()
    task = tasks.load("stackoverflow_word", data_dir=directory)
    sample = _sampler(task)
    train_data = client_data.ClientLoader(task.train, task.element_spec)
    _report(f"loaded in {time.process_time() - start:.2f} s")
    print(f"{sys.getallocatedblocks() - blocks:,} blocks; {task.description}")

    start = time.perf_counter()
    for round_num in range(1, _ROUNDS.value + 1):
      train_data(sample(round_num).reporting)
      if round_num in (1, 10) or round_num % 100 == 0:
        seconds = (time.perf_counter() - start) / round_num
        _report(f"round {round_num}, {1000 * seconds:.0f} ms each")


def _write_population(directory: pathlib.Path, num_clients: int) -> None:
  rng = cuts.generator(0)
  words = [f"w{k}" for k in range(_NUM_WORDS)]
  counts = "".join(f"{word} {_NUM_WORDS - k}\n" for k, word in enumerate(words))
  (directory / "stackoverflow.word_count").write_text(counts)
  sentences = [
    example_proto.serialize(
      {"tokens": " ".join(rng.choice(words, size=15)).encode()}
    )
    for _ in range(_NUM_SENTENCES)
  ]

  def examples() -> Iterator[client_data_writer.Example]:
    endless = itertools.cycle(sentences)
    for client in range(num_clients):
      for split, count in (("train", 2 + client % 3), ("test", 1)):
        for sentence in itertools.islice(endless, count):
          yield client_data_writer.Example(f"{client:08}", sentence, split)

  client_data_writer.write(
    directory / "stackoverflow.sqlite",
    examples(),
    client_data_writer.SplitSettings(
      choose_test=client_data_writer.last_share(0.5)
    ),
  )


def _report(what: str) -> None:
  print(
    f"{what:24} resident {measure.current_memory_mb():7.1f} MiB, "
    f"peak {measure.peak_memory_mb():7.1f} MiB",
    flush=True,
  )


def _run() -> None:
  """Trains, and prints a line after every tenth of the rounds."""
  tff_fair.runtime.use_local()
  task = tasks.load("digits", seed=0)
  model = task.model
  if _LARGE.value:
    build = functools.partial(task_models.mlp, (64,), (400, 400), 10, 0)
    model = dataclasses.replace(task, keras_model_fn=build).model
  process = tff_fair.algorithms.build(
    _METHOD.value,
    model,
    client_optimizer=tff.learning.optimizers.build_sgdm(0.1),
    batch_size=16,
    num_clients=task.num_clients,
    shuffle_seed=0,
  )
  sample = _sampler(task)
  train_data = client_data.ClientLoader(task.train, task.element_spec)
  state = process.initialize()
  rounds_per_line = max(1, _ROUNDS.value // _LINES_OF_RUN)
  print("rounds  median ms a round  program MiB")
  seconds: list[float] = []
  for round_num in range(1, _ROUNDS.value + 1):
    data = train_data(sample(round_num).reporting)
    start = time.perf_counter()
    state, _ = process.next(state, data)
    seconds.append(time.perf_counter() - start)
    if round_num % rounds_per_line == 0:
      print(
        f"{round_num:6}  {1000 * statistics.median(seconds):17.1f}  "
        f"{measure.current_memory_mb():11.1f}",
        flush=True,
      )
      seconds.clear()


def main() -> None:
  """Prints the requested measurements."""
  {"population": _population, "run": _run}[_SUBJECT.value]()


if __name__ == "__main__":
  measure.run(main)
