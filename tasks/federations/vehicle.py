"""Vehicle: sensors beside a road."""

import numpy as np
import pandas as pd

from tasks.federations.federation import Federation, Source


def _read(source: Source) -> pd.DataFrame:
  assert source is not None
  with np.load(source) as found:
    frame = pd.DataFrame(found["x"]).add_prefix("x")
    sensor = [f"sensor_{k:02}" for k in found["user"]]
    return frame.assign(sensor=sensor, heavy=(found["y"] > 0).astype(int))


FEDERATION = Federation(
  title="Vehicle",
  about="23 acoustic and seismic sensors beside a road hear vehicles pass, "
  "each from its own place. Which of two kinds it was is predicted.",
  source="Duarte and Hu, 2004; the training half of Ditto's cut (2021)",
  licence="public for research",
  difference="relation",
  read=_read,
  files="vehicle_ditto_train.npz, with x, y and user",
  client="sensor",
  label="heavy",
  kind="classes",
  sha256="0e8cadb9216e256158c0ae71e054214436aa370a22a7cbdb1e70cee399711570",
)
