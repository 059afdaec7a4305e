"""The import of TensorFlow Federated, without what is not needed."""

import contextlib
import sys
from collections.abc import Iterator

from tff_fair.experiments import garbage


@contextlib.contextmanager
def quick() -> Iterator[None]:
  """Surrounds an import that may be the first one of TensorFlow Federated.

  It brings TensorFlow Probability, a thousand modules, for discrete Gaussian
  noise, which runs do not use. That package imports its parts when somebody
  asks for them, but only if it comes before TensorFlow.
  """
  if "tensorflow" not in sys.modules:
    import tensorflow_probability  # noqa: F401, PLC0415
  with garbage.uncollected():
    yield
