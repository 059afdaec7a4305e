"""Landmine: fields searched by radar."""

import pandas as pd

from tasks.federations.federation import Federation, Source, of_cells


def _read(source: Source) -> pd.DataFrame:
  from scipy import io  # noqa: PLC0415

  found = io.loadmat(source)
  return of_cells(found["feature"].ravel(), found["label"].ravel(), "field")


FEDERATION = Federation(
  title="Landmine",
  about="29 fields, of two kinds of ground: some with leaves, some of bare "
  "earth. Whether a place has a mine, as 6 % have, is predicted from radar.",
  source="Xue et al., Multi-task learning with Dirichlet process priors, 2007",
  licence="public for research",
  difference="relation",
  read=_read,
  files="landmine.mat, with feature and label",
  client="field",
  label="label",
  kind="classes",
  score="auc",
  sha256="8d3863012bf66a397538c1ad5d80e6fb91bd66f9e39b56ff41e61e05f7b56b0a",
)
