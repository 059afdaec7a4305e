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
from typing import Any

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


@same
def a_model_of_ours(n):
  del n
  build = functools.partial(models.mlp, (4,), (3,), 2, seed=1)
  return (build, np.arange(3)), lambda: 1.0


@way
def a_closure(n):
  def f():
    return n

  return f, f


@way
def a_captured_array(n):
  array = np.full([3], n)

  def f():
    return array

  return f, f


@way
def a_default(n):
  def f(x=n):
    return x

  return functools.partial(f), f


@way
def a_keyword_default(n):
  def f(*, x=n):
    return x

  return {"f": f}, f


@way
def a_lambda_of_ours(n):
  names = vars(client_works)
  text = "[lambda: 1, lambda: 2]"
  f = eval(compile(text, client_works.__file__, "eval"), names)[n - 1]
  return f, f


@way
def a_method_of_a_subclass(n):
  first = type("Attack", (client_works.Attack,), {"value": lambda _: n})
  made = first(kind="bias", strength=1.0, client_ids=(1,))
  return made, made.value


@way
def a_bound_method(n):
  class Model:
    size = n

    def build(self):
      return self.size

  f = functools.partial(Model().build)
  return f, f


@way
def an_attribute_beside_fields(n):
  made = client_works.Attack(kind="bias", strength=1.0, client_ids=(1,))
  object.__setattr__(made, "hidden", n)
  return made, lambda: vars(made)["hidden"]


@way
def a_lying_number(n):
  class Lying(int):
    def __repr__(self):
      return "0"

  value = Lying(n)
  return value, lambda: int(value)


@way
def a_field_of_a_dict(n):
  value = type("dict", (dict,), {})()
  value.hidden = n
  return value, lambda: value.hidden


@way
def zeros(n):
  value = (0.0, -0.0)[n - 1]
  return value, lambda: np.copysign(1.0, value)


@way
def kinds_of_one(n):
  value = (1, True)[n - 1]
  return value, lambda: len(str(value))


@way
def an_order_of_names(n):
  value = {"a": 1, "b": 2} if n == 1 else {"b": 2, "a": 1}
  return value, lambda: [*value.values()]


@way
def objects_in_an_array(n):
  held = _HELD[0]
  held[0] = n
  value = np.array([None])
  value[0] = held
  return value, lambda: held[0]


_HELD = [[0]]


@way
def names_of_fields(n):
  value = np.zeros([1], [("a" * n, np.int32)])
  return value, lambda: len(value.dtype.names[0])  # type: ignore[index]


@way
def a_view(n):
  value = np.arange(6)[:: 2 if n == 1 else -2]
  return value, lambda: value


@way
def an_order_in_memory(n):
  value = np.zeros([2, 3], order="C" if n == 1 else "F")
  return value, lambda: value.strides


@way
def a_name_of_a_spec(n):
  value = tf.TensorSpec([2], tf.float32, "ab"[n - 1])
  return value, lambda: ord(value.name)


@way
def generated_code(n):
  names: dict[str, Any] = {}
  exec(f"def f():\n  return {n}", names)
  return names["f"], names["f"]


@way
def a_keras_seed(n):
  tf.keras.utils.set_random_seed(n)
  return "key", lambda: tf.keras.initializers.GlorotUniform()([2, 2])


@way
def an_epsilon(n):
  tf.keras.backend.set_epsilon(1e-3 * n)
  return "key", tf.keras.backend.epsilon


@way
def an_image_format(n):
  tf.keras.backend.set_image_data_format(
    "channels_last" if n == 1 else "channels_first"
  )
  return "key", lambda: len(tf.keras.backend.image_data_format())


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
def a_variable(n):
  os.environ["TF_OF_A_TEST"] = str(n)
  return "key", lambda: int(os.environ["TF_OF_A_TEST"])


@way
def a_function_of_ours(n):
  cache.users_path = lambda: n
  return "key", cache.users_path


@way
def a_method_of_ours(n):
  cache.Folder.size = property(lambda _: n)  # type: ignore[attr-defined]
  return "key", lambda: vars(cache.Folder)["size"].fget(None)


@way
def a_function_of_tensorflow(n):
  tf.nn.relu = lambda x: x * n
  return "key", lambda: tf.nn.relu(tf.constant(3.0))


@way
def a_layer_of_keras(n):
  tf.keras.layers.ReLU.call = lambda _, x: x * n
  return "key", lambda: tf.keras.layers.ReLU()(tf.constant(3.0))


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
