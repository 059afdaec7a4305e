"""Fair federated learning on TensorFlow Federated.

The package has methods that aim at uniform performance across clients. Each
method builds a TFF learning process from federated computations.

By default, TensorFlow logs missing hardware and each session. If a program
imports this package before TensorFlow, TensorFlow logs neither, unless the user
has set TF_CPP_MIN_LOG_LEVEL.
"""

import atexit
import importlib
import os
import sys
import typing

from tff_fair import lazy

# TensorFlow reads these variables once, when it is imported.
if "tensorflow" not in sys.modules:
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  # TensorFlow sets this variable, too, but only after importing some of its
  # modules. So within `absl.app.run`, an import of TensorFlow would create its
  # context before eager mode is on, and Keras could not build models.
  os.environ.setdefault("TF2_BEHAVIOR", "1")


@atexit.register
def _let_tff_end() -> None:
  """Replaces TFF's default context so that the old context ends its worker now.

  Otherwise the old context would try to end the worker after Python has removed
  the modules that the context needs, and fail.
  """
  tff = sys.modules.get("tensorflow_federated")
  if tff is None or not hasattr(tff, "framework"):
    return  # The program has not imported TFF completely.

  class Ended(tff.framework.SyncContext):  # type: ignore[name-defined]
    def invoke(self, comp: object, arg: object) -> object:
      del comp, arg
      raise RuntimeError("The program has ended and can compute nothing more.")

  tff.framework.set_default_context(Ended())


__version__: str

if typing.TYPE_CHECKING:
  from tff_fair import (
    aggregators as aggregators,
    algorithms as algorithms,
    client_works as client_works,
    declared as declared,
    evaluation as evaluation,
    experiments as experiments,
    finalizers as finalizers,
    methods as methods,
    metrics as metrics,
    optimizers as optimizers,
    privacy as privacy,
    programs as programs,
    rounds as rounds,
    runtime as runtime,
    summing as summing,
    testing as testing,
    types as types,
  )
  from tff_fair.types import (
    ClientSignals as ClientSignals,
    client_dataset as client_dataset,
  )


_find, __dir__, __all__ = lazy.attach(__name__, __file__)
__all__ += ["__version__"]


def __getattr__(name: str) -> object:
  if name == "__version__":
    return importlib.import_module("tff_fair.runtime.version").find()
  return _find(name)
