"""Repeats the computation of a seed, with its calls; tells how each ends."""

import pathlib
import sys
import tempfile

from benchmarks.fuzzing.computations import contexts, drawing

for text in sys.argv[1:]:
  both = contexts.Both()
  with tempfile.TemporaryDirectory() as folder:
    for case in drawing.of_seed(int(text), pathlib.Path(folder), both):
      try:
        print(f"{case.name}: {case.run().value}")
      # The report names each error that escapes.
      except Exception as error:
        print(f"{case.name}: {getattr(error, 'way', type(error))}: {error}")
  both.close()
