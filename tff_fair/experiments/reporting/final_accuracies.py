"""The clients' accuracies at the end of a run."""

import pandas as pd

from tff_fair.experiments.runs.run import ROUND, Run

_ACCURACY = "test_accuracy"


def of_run(run: Run) -> "pd.Series[float]":
  """Returns float[K] in [0, 1], by ascending ids of clients.

  They come from the table of clients if there is one; the table of all
  evaluations may be large.
  """
  if run.clients is not None and _ACCURACY in run.clients:
    found = run.clients.set_index("client_id")[_ACCURACY]
  else:
    table = run.client_evaluations
    last = table[table[ROUND] == table[ROUND].max()]
    found = last.set_index("client_id")["accuracy"]
  return found.dropna().astype(float).sort_index()
