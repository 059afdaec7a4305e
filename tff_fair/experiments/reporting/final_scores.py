"""The clients' scores at the end of a run."""

import pandas as pd

from tff_fair.experiments.runs.run import ROUND, Run


def of_run(run: Run) -> "pd.Series[float]":
  """Returns float[K], not scaled, by ascending ids of clients.

  They come from the table of clients if there is one; the table of all
  evaluations may be large.
  """
  name = run.score.name
  if run.clients is not None and f"test_{name}" in run.clients:
    found = run.clients.set_index("client_id")[f"test_{name}"]
  else:
    table = run.client_evaluations
    last = table[table[ROUND] == table[ROUND].max()]
    found = last.set_index("client_id")[name]
  return found.dropna().astype(float).sort_index()
