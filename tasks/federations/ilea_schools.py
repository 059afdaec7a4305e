"""School (ILEA): schools of Inner London."""

import pandas as pd

from tasks.federations.federation import Federation, Source, of_cells


def _read(source: Source) -> pd.DataFrame:
  from scipy import io  # noqa: PLC0415

  found = io.loadmat(source)
  return of_cells(found["X"].ravel(), found["Y"].ravel(), "school")


FEDERATION = Federation(
  title="ILEA schools",
  about="139 schools of Inner London, of 22 to 251 pupils in three years. The "
  "score of an examination is predicted from the pupil and the school.",
  source="Inner London Education Authority, 1987; as in multi-task learning",
  licence="public for research",
  difference="level",
  read=_read,
  files="school_ilea.mat, with X and Y",
  client="school",
  label="label",
  kind="number",
  sha256="122e6a72933fa5964f8636bf1e649ea881b677dbfbc06f2f457f12c53744a04c",
)
