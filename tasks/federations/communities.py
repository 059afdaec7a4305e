"""Communities and crime: states of the USA."""

import pandas as pd

from tasks.federations.federation import Federation, Source

_NAMES = ("county", "community", "communityname string", "fold")


def _read(source: Source) -> pd.DataFrame:
  assert source is not None
  frame = pd.read_csv(source, na_values="?").drop(columns=[*_NAMES])
  state, crimes = frame.columns[0], frame.columns[-1]
  # Columns that hardly any police reports have are left out.
  frame = frame.dropna(axis=1, thresh=len(frame) - 1)
  frame[state] = [f"state_{k:02}" for k in frame[state]]
  return frame.rename(columns={state: "state", crimes: "crimes"})


FEDERATION = Federation(
  title="Communities and crime",
  about="Communities of 46 states of the USA, a state being a client. Violent "
  "crimes per inhabitant are predicted from the census.",
  source="UCI communities and crime: Redmond, 2009",
  licence="CC BY 4.0",
  difference="relation",
  read=_read,
  files="communities_crime.csv.gz",
  client="state",
  label="crimes",
  kind="number",
  sha256="eff3f24b57411b602a792753773747d7c2e8db5663e3aa15f81b057980d2aab6",
)
