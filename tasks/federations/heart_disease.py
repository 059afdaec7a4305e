"""Heart disease: four hospitals."""

import tarfile

import pandas as pd

from tasks.federations.federation import Federation, Source

_COLUMNS = (
  *("age", "sex", "pain", "pressure", "cholesterol", "sugar", "ecg"),
  *("rate", "angina", "depression", "slope", "vessels", "thal", "disease"),
)


def read_hospitals(source: Source) -> pd.DataFrame:
  """Returns the rows of all hospitals, missing values included."""
  assert source is not None
  with tarfile.open(source) as files:
    tables = []
    for name in sorted(files.getnames()):
      if name.endswith(".data"):
        member = files.extractfile(name)
        table = pd.read_csv(member, names=_COLUMNS, na_values="?")
        tables.append(table.assign(hospital=name.split(".")[-2]))
  frame = pd.concat(tables)
  return frame.assign(disease=(frame["disease"] > 0).astype(int))


FEDERATION = Federation(
  title="Heart disease",
  about="Hospitals in Cleveland, Budapest, Zurich and Long Beach, with 123 to "
  "303 patients, measured different things. Heart disease is predicted.",
  source="UCI heart disease: Janosi et al., 1988",
  licence="CC BY 4.0",
  difference="level",
  read=read_hospitals,
  files="heart_disease_4hospitals.tar.gz, with processed.HOSPITAL.data",
  client="hospital",
  label="disease",
  kind="classes",
  options={"categories": "pain,ecg,slope,thal"},
  sha256="e6b9a78baed418472dcf1e0d32d31ce962128e650dd4eb7429b365da58271ad9",
)
