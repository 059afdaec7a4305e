"""Parkinson's telemonitoring: patients at home."""

import pandas as pd

from tasks.federations.federation import Federation, Source


def _read(source: Source) -> pd.DataFrame:
  assert source is not None
  frame = pd.read_csv(source, sep="\t")
  frame["subject#"] = [f"patient_{k:02}" for k in frame["subject#"]]
  return frame.rename(columns={"subject#": "patient"}).drop(
    columns="motor_UPDRS"
  )


FEDERATION = Federation(
  title="Parkinson's",
  about="42 patients with early Parkinson's disease record their voice at home "
  "for half a year. The total UPDRS, how ill they are, is predicted.",
  source="UCI Parkinson's telemonitoring: Tsanas and Little, 2009",
  licence="CC BY 4.0",
  difference="level",
  read=_read,
  files="parkinsons_updrs.tsv.gz",
  client="patient",
  label="total_UPDRS",
  kind="number",
  sha256="be16fb544774998590c81600dcac56654ee95450e6143485a58d8ba5f024966e",
)
