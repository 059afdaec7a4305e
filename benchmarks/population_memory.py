"""Memory of sampling cohorts from a population as large as Stack Overflow's.

Builds files in the formats of TFF's Stack Overflow with many made-up users in a
temporary directory, loads the task `stackoverflow_word`, and takes the data of
a random cohort round after round, as training does:

    python -m benchmarks.population_memory --clients=342477 --rounds=1000

The data is built, as datasets of whole tensors, and not trained on: a round of
training would have the program iterate in a process of its own. The peak is
that of all rounds so far; "before" is after the imports. The seconds of loading
are the processor's. "Blocks" are those of Python's allocator since "before": at
least one for each Python object.
"""

import argparse
import itertools
import pathlib
import sys
import tempfile
import time
from collections.abc import Iterator

import tasks
from benchmarks import measure
from tasks import cuts
from tasks.conversions import client_data_file
from tasks.formats import example_proto
from tff_fair.experiments.training import client_data, sampling

_NUM_WORDS = 1000
_NUM_SENTENCES = 500


def main() -> None:
  """Builds the files, samples cohorts and prints a line now and then."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
  parser.add_argument("--clients", type=int, default=300_000)
  parser.add_argument("--rounds", type=int, default=1000)
  parser.add_argument("--clients_per_round", type=int, default=10)
  flags = parser.parse_args()
  _report("before")
  blocks = sys.getallocatedblocks()
  with tempfile.TemporaryDirectory() as directory:
    _build(pathlib.Path(directory), flags.clients)
    _report("file built")
    start = time.process_time()
    task = tasks.load("stackoverflow_word", data_dir=directory)
    sample = sampling.Sampler(
      sampling.Sampling(
        seed=0, clients_per_round=(flags.clients_per_round,) * 2
      ),
      task.train.num_examples,
    )
    train_data = client_data.ClientLoader(task.train, task.element_spec)
    _report(f"loaded in {time.process_time() - start:.2f} s")
    print(f"{sys.getallocatedblocks() - blocks:,} blocks; {task.description}")

    start = time.perf_counter()
    for round_num in range(1, flags.rounds + 1):
      train_data(sample(round_num).reporting)
      if round_num in (1, 10, 100) or round_num % 100 == 0:
        seconds = (time.perf_counter() - start) / round_num
        _report(f"round {round_num}, {1000 * seconds:.0f} ms each")


def _build(directory: pathlib.Path, num_clients: int) -> None:
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

  def examples() -> Iterator[client_data_file.Example]:
    endless = itertools.cycle(sentences)
    for client in range(num_clients):
      for split, count in (("train", 2 + client % 3), ("test", 1)):
        for sentence in itertools.islice(endless, count):
          yield client_data_file.Example(f"{client:08}", sentence, split)

  client_data_file.write(
    directory / "stackoverflow.sqlite",
    examples(),
    client_data_file.Cut(choose_test=client_data_file.last_share(0.5)),
  )


def _report(what: str) -> None:
  print(
    f"{what:24} resident {measure.current_memory_mb():7.1f} MiB, "
    f"peak {measure.peak_memory_mb():7.1f} MiB",
    flush=True,
  )


if __name__ == "__main__":
  main()
