"""Adult, a client per occupation; `tasks.adult` has the papers' two clients."""

import pandas as pd

from tasks.federations.federation import Federation, Source

_COLUMNS = (
  *(
    "age",
    "workclass",
    "weight",
    "education",
    "years",
    "marital",
    "occupation",
  ),
  *(
    "relationship",
    "race",
    "sex",
    "gain",
    "loss",
    "hours",
    "country",
    "income",
  ),
)


def _read(source: Source) -> pd.DataFrame:
  assert source is not None
  parts = []
  for half in ("data", "test"):
    (path,) = sorted(source.glob(f"adult.{half}*"))
    part = pd.read_csv(
      path, names=_COLUMNS, skipinitialspace=True, comment="|"
    ).dropna()
    parts.append(part.assign(income=part["income"].str.rstrip(".")))
  frame = pd.concat(parts).drop(columns=["weight", "education"])
  frame[["age", "years", "gain", "loss", "hours"]] = frame[
    ["age", "years", "gain", "loss", "hours"]
  ].astype(int)
  return frame.replace({"?": "unknown"})


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
