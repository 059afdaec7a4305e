"""The number by which an audit compares clients, and columns of its tables."""

import dataclasses

import pandas as pd

from tff_fair.experiments.scores import ACCURACY, RMSE, Score

__all__ = ["ACCURACY", "LOSS", "R2", "RMSE", "Score"]

R2 = "r2"  # The column beside the errors.
CLIENT, COUNT, CORRECT = "client", "num_examples", "correct"
LOSS = dataclasses.replace(
  RMSE,
  name="loss",
  noun="loss",
  plural="losses",
  in_unit="means over examples",
  worst="largest loss",
  beside=(),
)


def of_table(clients: pd.DataFrame) -> Score:
  """Returns the score of a table of clients, the first that it has."""
  return next(s for s in (ACCURACY, RMSE, LOSS) if s.name in clients)


def shown_name(name: object) -> str:
  """Returns a client's name as a terminal may show it, in one line."""
  return "".join(c if c.isprintable() else "\ufffd" for c in str(name))
