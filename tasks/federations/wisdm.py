"""WISDM: people who carry a telephone."""

import tarfile

import pandas as pd

from tasks.federations.federation import Federation, Source


def _read(source: Source) -> pd.DataFrame:
  assert source is not None
  with tarfile.open(source) as files:
    (name,) = (name for name in files.getnames() if name.endswith(".arff"))
    member = files.extractfile(name)
    assert member is not None  # It is a file.
    lines = member.read().decode().split("@data")[1].split()
  rows = pd.DataFrame([line.split(",") for line in lines])
  x = rows.iloc[:, 2:-1].apply(pd.to_numeric, errors="coerce")
  x = x.dropna(axis=1, how="all").add_prefix("x")
  return x.assign(person="p" + rows[1], activity=rows.iloc[:, -1])


FEDERATION = Federation(
  title="WISDM",
  about="36 people carry a telephone in their pocket. Which of six activities, "
  "such as walking upstairs, ten seconds of its motion are is predicted.",
  source="WISDM Lab, Activity prediction 1.1: Kwapisz, Weiss and Moore, 2010",
  licence="free to use with a citation",
  difference="relation",
  read=_read,
  files="wisdm_transformed.tar.gz, with an ARFF file",
  client="person",
  label="activity",
  kind="classes",
  sha256="0073a5bb2047a621f21d93e13adc3afa046ea686601a4792d34ae0fc4318a515",
)
