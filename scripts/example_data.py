"""Writes the artificial data of docs/own_data.md, using a fixed seed.

    python scripts/example_data.py examples

clinics.csv has 3,200 patients of twelve clinics, one row each. Clinics differ
in size and in their patients; in one of them, high blood pressure lowers the
risk. sensors.npz has 720 windows of two signals measured at 18 machines.
"""

import pathlib
import sys

import numpy as np
import pandas as pd

_SEED = 2026


def clinics() -> pd.DataFrame:
  """Returns a row for each patient: clinic, features and outcome."""
  generator = np.random.default_rng(_SEED)
  parts = []
  for number, share in enumerate(generator.dirichlet(np.full(12, 1.5))):
    n = 80 + round(2240 * share)
    older = generator.normal(0, 8)
    age = np.clip(generator.normal(58 + older, 15, n), 18, 97).round()
    pressure = generator.normal(120 + 0.3 * (age - 50), 14, n).round()
    smokes = generator.random(n) < 0.2 + 0.02 * number
    referral = generator.choice(
      ["family doctor", "emergency", "another clinic"],
      n,
      p=generator.dirichlet([6, 3, 1]),
    )
    days = generator.gamma(2, 2.2, n) * np.where(
      referral == "emergency", 1.5, 1
    )
    # One clinic treats high blood pressure early, so there it lowers the risk.
    sign = -1 if number == 7 else 1
    score = (
      0.05 * (age - 60)
      + sign * 0.09 * (pressure - 122)
      + 0.9 * smokes
      + 1.1 * (referral == "emergency")
      - 0.8
    )
    readmitted = generator.random(n) < 1 / (1 + np.exp(-1.6 * score))
    parts.append(
      pd.DataFrame(
        {
          "clinic": f"clinic {number + 1:02}",
          "age": age.astype(int),
          "blood_pressure": np.where(
            generator.random(n) < 0.07, np.nan, pressure
          ),
          "smoker": np.where(
            generator.random(n) < 0.05, "", np.where(smokes, "yes", "no")
          ),
          "referral": referral,
          "days": days.round(1),
          "readmitted": np.where(readmitted, "yes", "no"),
        }
      )
    )
  patients = pd.concat(parts, ignore_index=True)
  return patients.iloc[generator.permutation(len(patients))]


def sensors() -> dict[str, np.ndarray]:
  """Returns `x`, windows of two signals; `y`, states; `client`, machines."""
  generator = np.random.default_rng(_SEED)
  number = 720
  machine = generator.integers(0, 18, number)
  state = generator.integers(0, 3, number)
  time = np.arange(16)
  # Each machine has its own speed; a state is a pattern in time.
  speed = 0.4 + 0.02 * machine[:, np.newaxis]
  rising = (state == 1)[:, np.newaxis] * 0.08 * time
  shaking = (state == 2)[:, np.newaxis] * np.sin(2.5 * time)
  signals = [
    np.sin(speed * time + generator.uniform(0, 6, (number, 1))) + rising,
    np.cos(speed * time) + shaking,
  ]
  x = np.stack(signals, axis=-1) + generator.normal(0, 0.4, (number, 16, 2))
  return {
    "x": x.astype(np.float32),
    "y": state.astype(np.int32),
    "client": np.char.add("machine ", np.char.zfill(machine.astype(str), 2)),
  }


def main() -> None:
  """Writes both files into the folder that the first argument names."""
  folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
  clinics().to_csv(folder / "clinics.csv", index=False)
  np.savez_compressed(folder / "sensors.npz", **sensors())
  print(f"Wrote clinics.csv and sensors.npz into {folder}.")


if __name__ == "__main__":
  main()
