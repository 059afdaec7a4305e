"""Programs in pairs: the second must not get what only the first may keep.

Run as a script, it prints for each way in which the second program differs:
what the first built, what the second got from the cache, and what it gets
without one. Each is a process of its own, forked from one that has imported
TensorFlow, for it takes seconds.
"""

import collections
import contextlib
import functools
import hashlib
import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tasks import models
from tff_fair import client_works
from tff_fair.runtime import compilation_cache
from tff_fair.runtime.compilation_cache import cache, keys

# From the number of the program, 1 or 2, to a key and what is computed for it.
Program = Callable[[int], tuple[object, Callable[[], object]]]
WAYS: dict[str, Program] = {}
# Both programs are the same.
SAME: dict[str, Program] = {}


def way(program: Program) -> Program:
  WAYS[program.__name__] = program
  return program


def same(program: Program) -> Program:
  SAME[program.__name__] = program
  return program


@same
def nothing(n):
  del n
  return "key", lambda: 1.0


def closure_of_ours(held):
  """Returns a function, as if a file of ours had made it, that returns this."""
  text, names = "lambda held: lambda: held", vars(client_works)
  return eval(compile(text, client_works.__file__, "eval"), names)(held)


@same
def a_model_and_a_closure_of_ours(n):
  del n
  build = functools.partial(models.mlp, (4,), (3,), 2, seed=1)
  return (build, np.arange(3), closure_of_ours(1)), lambda: 1.0


@way
def a_closure_of_ours(n):
  f = closure_of_ours(n)
  return f, f


@way
def a_function_of_a_user(n):
  def f():
    return n

  return f, f


@way
def a_keras_seed(n):
  tf.keras.utils.set_random_seed(n)
  return "key", lambda: tf.keras.initializers.GlorotUniform()([2, 2])


@way
def a_policy(n):
  names = "float32", "mixed_bfloat16"
  tf.keras.mixed_precision.set_global_policy(names[n - 1])
  return "key", lambda: len(tf.keras.mixed_precision.global_policy().name)


@way
def a_registered_layer(n):
  tf.keras.utils.get_custom_objects()["relu"] = lambda x: x * n
  return "key", lambda: tf.keras.activations.get("relu")(tf.constant(3.0))


@way
def options_of_graphs(n):
  tf.config.optimizer.set_experimental_options({"remapping": n == 1})
  options = tf.config.optimizer.get_experimental_options
  return "key", lambda: float(options()["remapping"])


@way
def threads(n):
  tf.config.threading.set_intra_op_parallelism_threads(n)
  return "key", tf.config.threading.get_intra_op_parallelism_threads


@way
def a_function_of_ours(n):
  cache.users_path = lambda: n
  return "key", cache.users_path


def run(program: Program, n: int, files: compilation_cache.CompilationCache):
  """Returns a digest of what a program gets, and how often it built it."""
  reading, writing = os.pipe()
  child = os.fork()
  if child == 0:
    with contextlib.suppress(BaseException):
      built = []
      key, compute = program(n)

      def build():
        built.append(1)

        @tff.tensorflow.computation
        def comp():
          values = tf.nest.map_structure(tf.convert_to_tensor, compute())
          return collections.OrderedDict(
            (str(i), v) for i, v in enumerate(tf.nest.flatten(values))
          )

        return {"comp": comp}

      comp = files.compiled(key, build)["comp"]
      content = tff.framework.serialize_computation(comp).SerializeToString()
      digest = hashlib.sha256(content).hexdigest()
      os.write(writing, json.dumps([digest, len(built)]).encode())
    os._exit(0)
  os.close(writing)
  with open(reading) as answer:
    content = answer.read()
  os.waitpid(child, 0)
  return json.loads(content) if content else None


def main() -> None:
  keys.digest(1)  # Forked processes need not look at all modules again.
  outcomes = {}
  for name, program in {**WAYS, **SAME}.items():
    with tempfile.TemporaryDirectory() as path:
      kept = cache.CompilationCache(cache.Folder(pathlib.Path(path)))
      plain = cache.CompilationCache(cache.Folder(pathlib.Path(path, "other")))
      outcomes[name] = [run(program, n, kept) for n in (1, 2)]
      outcomes[name].append(run(program, 2, plain))
  json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
  main()
