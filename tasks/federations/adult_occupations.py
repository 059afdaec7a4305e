"""Adult, a client per occupation; `tasks.adult` has the papers' two clients."""

import numpy as np
import pandas as pd

from tasks import adult
from tasks.federations.federation import Federation, Source

_COLUMNS = (
  *("age", "workclass", "weight", "education", "years", "marital"),
  *("occupation", "relationship", "race", "sex", "gain", "loss", "hours"),
  "country",
)


def _read(source: Source) -> pd.DataFrame:
  assert source is not None
  halves = [
    adult.read(adult.find(source, name), "value")
    for name in ("adult.data", "adult.test")
  ]
  rows = np.concatenate([half.rows for half in halves])
  labels = np.concatenate([half.labels for half in halves])
  return (
    pd.DataFrame(rows, columns=_COLUMNS)
    .drop(columns=["weight", "education"])
    .replace({"?": "unknown"})
    .assign(income=np.where(labels, ">50K", "<=50K"))
  )


FEDERATION = Federation(
  title="Adult, by occupation",
  about="The occupations of the US census of 1994, from the armed forces to "
  "professionals, and the unknown one. Whether a person earns above 50,000 "
  "dollars is predicted.",
  source="UCI Adult: Becker and Kohavi, 1996",
  licence="CC BY 4.0",
  difference="level",
  read=_read,
  files="the folder of adult.data and adult.test, also as .gz",
  client="occupation",
  label="income",
  kind="classes",
  sha256="67d6ebcec5ca1f61b33ff82dd8b12a3c1aa3f5a2b0e4fdcb74747765dda03ef1",
)
