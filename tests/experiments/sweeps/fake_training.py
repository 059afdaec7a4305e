"""Replaces training in the processes that a sweep starts."""

import os
import pathlib
import sys
import time
import types

from tests.experiments import run_folders
from tff_fair.declared import FieldError


def train(spec, path, **options):
  """Writes a run, or fails in a way that depends on the seed.

  With seed 6, a run kills the server from which all runs are forked; with 7, it
  fails; with 8, it dies; with 9, it takes long.
  """
  del options
  print(spec.algorithm, os.getpid())
  main = getattr(sys.modules["__main__"], "__file__", None)
  print("main:", main, flush=True)
  if spec.seed == 6:
    os.kill(os.getppid(), 9)
    time.sleep(1)
  if spec.seed == 7:
    raise FieldError("seed", "is 7.", value=7)
  if spec.seed == 8:
    os.kill(os.getpid(), 9)
  if spec.seed == 9:
    time.sleep(100)
  path = pathlib.Path(path)
  again = path.with_name(f"{path.name}.again")
  assert not again.exists(), "A run that is finished ran again."
  again.touch()
  _rewrite_a_function(path.with_name("__autograph_generated_file.py"))
  run_folders.make(
    path,
    algorithm=spec.algorithm,
    seed=spec.seed,
    hparams=dict(spec.hparams),
    client_learning_rate=spec.client_learning_rate,
    total_rounds=spec.total_rounds,
  )


def _rewrite_a_function(path):
  """Leaves a file that only `atexit` removes, as TensorFlow does."""
  path.touch()
  sys.modules[path.stem] = types.ModuleType(path.stem)
  sys.modules[path.stem].__file__ = str(path)


def describe(error):
  """Describes a mistake as a program does."""
  return f"--{error.field}={error.value}: {error.problem}"
