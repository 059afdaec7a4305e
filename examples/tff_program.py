"""A fair method in TensorFlow Federated's own training program.

`train_model` saves a state after each round, from which a later start resumes.

    python examples/tff_program.py --output_dir=outputs/program --rounds=10
"""

import argparse
import asyncio
import datetime
import pathlib

import tff_fair  # First: this silences TensorFlow's hardware messages.
import tasks
import tensorflow_federated as tff

flags = argparse.ArgumentParser()
flags.add_argument("--output_dir", required=True)
flags.add_argument("--rounds", type=int, default=5)
args = flags.parse_args()
task = tasks.load("digits")
train = [tff_fair.client_dataset(k, task.train_data(k)) for k in range(30)]
sgd = tff.learning.optimizers.build_sgdm(0.1)
process = tff_fair.algorithms.build(
  "adafed", task.model_fn, client_optimizer=sgd, batch_size=16
)
test = [task.test_data(k) for k in range(30)]
folder = pathlib.Path(args.output_dir)
evaluation = tff.learning.algorithms.build_fed_eval(task.model_fn)


class Printer(tff.program.ReleaseManager):
  """Prints the accuracy of each round that the program releases."""

  async def release(self, value, key):
    """Prints the accuracy of a round."""
    metrics = await tff.program.materialize_value(value["model_metrics"])
    print(f"round {key}: {metrics['sparse_categorical_accuracy']:.1%}")


tff_fair.runtime.use_local(program=True)  # TFF's programs require this.
program = tff.learning.programs.train_model(
  train_process=process,
  train_data_source=tff_fair.programs.ClientDataSource(train, seed=0),
  train_per_round_clients=10,
  train_total_rounds=args.rounds,
  program_state_manager=tff.program.FileProgramStateManager(folder / "states"),
  model_output_manager=tff.program.LoggingReleaseManager(),
  train_metrics_manager=Printer(),
  evaluation_manager=tff.learning.programs.EvaluationManager(
    tff_fair.programs.ClientDataSource(test),
    Printer(),
    lambda name: tff.program.FileProgramStateManager(folder / name),
    lambda _: (evaluation, None),
    cohort_size=30,
    duration=datetime.timedelta(0),
  ),
  evaluation_periodicity=args.rounds,
)
asyncio.run(program)
