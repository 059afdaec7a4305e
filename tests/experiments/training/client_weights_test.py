"""Runs in which the data says what each client counts for."""

import dataclasses

import numpy as np
import pytest

from tests.tasks import tabular_data
from tff_fair import declared
from tff_fair.experiments import RunSpec, run


@pytest.fixture
def spec(tmp_path):
  weight = np.array([2, 0.5, 7.5])[np.arange(30) % 3]
  tabular_data.write_arrays(tmp_path, client_weight=weight)
  return RunSpec(
    task="arrays",
    task_options={"file": str(tmp_path / "examples.npz")},
    algorithm="fedavg",
    client_weighting="column",
    clients_per_round=3,
    total_rounds=1,
    batch_size=4,
  )


def test_coefficients_are_the_weights_in_the_data(spec, tmp_path):
  finished = run(spec, tmp_path / "run", progress=False)
  cohorts = finished.cohorts.sort_values("client_id")
  np.testing.assert_allclose(
    cohorts["coefficient"].astype(float), [0.05, 0.2, 0.75], rtol=1e-6
  )


def test_data_without_weights(spec, tmp_path):
  tabular_data.write_arrays(tmp_path)
  with pytest.raises(declared.FieldError) as error:
    run(dataclasses.replace(spec), tmp_path / "run", progress=False)
  assert error.value.field == "client_weighting"
  assert "client_weight" in str(error.value)
