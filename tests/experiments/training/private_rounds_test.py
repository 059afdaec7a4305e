"""Tests of runs with secure sums and with noise, and of `export_form`."""

import contextlib
import json
import pathlib
from unittest import mock

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.experiments.training.small_run import SMALL, train
from tests.refusals import rejected
from tff_fair import experiments, privacy, runtime
from tff_fair.experiments.spec import scores, task_loading
from tff_fair.experiments.training import in_memory

pytestmark = pytest.mark.usefixtures("unpainted")

SPEC = SMALL.replace(algorithm="fedavg", clients_per_round=3, total_rounds=2)


@pytest.fixture
def local_again():
  yield
  runtime.use_local()


@pytest.mark.usefixtures("local_again")
def test_a_run_simulates_secure_sums_and_says_so(tmp_path, capfd):
  secure = experiments.run(
    SPEC.replace(aggregation="secure", secure_bound=512.0), tmp_path / "secure"
  )
  err = capfd.readouterr().err
  assert "Secure sums are simulated" in err
  assert "Object was never used" not in err
  assert secure.rounds["aggregator/num_clients_out_of_bounds"].sum() == 0
  with mock.patch.object(
    runtime, "in_parts_of", return_value=contextlib.nullcontext()
  ) as parts:
    streaming = train(SPEC.replace(clients_per_part=2), tmp_path / "streaming")
  parts.assert_called_once_with(2)
  for found, expected in zip(
    secure.weights(), streaming.weights(), strict=True
  ):
    np.testing.assert_allclose(found, expected, atol=1e-5)
  column = "client_work/train/num_examples"
  assert secure.rounds[column].tolist() == streaming.rounds[column].tolist()
  # Of a single client, only its participation is known.
  cohorts, others = secure.cohorts, streaming.cohorts
  assert cohorts is not None
  assert others is not None
  assert cohorts[["coefficient", "loss", "excluded"]].isna().all(axis=None)
  assert cohorts["client_id"].tolist() == others["client_id"].tolist()
  assert not [n for n in secure.rounds if "coefficient" in n]
  assert_has_a_form(secure, tmp_path / "round")


@pytest.mark.usefixtures("local_again")
def test_short_runs_simulate_secure_sums():
  spec = SPEC.replace(aggregation="secure", secure_bound=512.0, total_rounds=1)
  # The run must not need a context that simulates secure sums.
  runtime.use_local()
  found = in_memory.train_and_evaluate(
    spec, task_loading.load(spec), in_memory.ProgramCache()
  )
  assert np.isfinite(found.clients["loss"]).all()


def assert_has_a_form(run, folder: pathlib.Path):
  assert experiments.export_form(run, folder) == folder
  index = json.loads((folder / "form.json").read_text())
  assert index["aggregation"] == "secure"
  for name, described in index["computations"].items():
    proto = type(tff.framework.Placement(tff.SERVER).proto)()
    proto.ParseFromString((folder / described["file"]).read_bytes())
    computation = tff.framework.deserialize_computation(proto)
    assert str(computation.type_signature) == described["type"], name
  files = {path.name for path in folder.iterdir()}
  assert files == {
    *(c["file"] for c in index["computations"].values()),
    "form.json",
    "README.md",
  }


def test_a_private_run_tells_its_epsilon_and_what_has_no_noise(
  tmp_path, monkeypatch, capfd
):
  random = np.random.default_rng(3)
  y = random.integers(2, size=120)
  np.savez(
    tmp_path / "data.npz",
    x=np.float32(y[:, None] + random.normal(size=[120, 2])),
    y=y,
    client=np.arange(120) % 6,
  )
  spec = SPEC.replace(
    client_weighting="uniform",
    dp_noise=2.0,
    dp_clip=0.5,
    task="arrays",
    task_options={"file": str(tmp_path / "data.npz"), "test_fraction": 0.5},
    criterion="mean",
    patience=1,
    threshold_for="f1",
    total_rounds=6,
    rounds_per_evaluation=1,
  )
  # No later evaluation is better than the first one.
  monkeypatch.setattr(scores.Score, "is_better", lambda *_: False)
  run = experiments.run(spec, tmp_path / "private")
  assert run.summary is not None
  assert run.summary["rounds"] == 2
  spent = run.summary["privacy"]
  of_settings = [text for text in spent["left_out"] if text.endswith(")")]
  named = [text.rpartition("(")[2][:-1] for text in of_settings]
  assert named == ["criterion", "patience", "threshold_for"]
  # Evaluations decide how many rounds there are, so all planned rounds count.
  assert spent["rounds"] == 6
  expected = privacy.epsilon(privacy.dp(2.0, 3, 0.5), num_clients=6, rounds=6)
  assert spent["epsilon"] == expected
  assert spent["delta"] == pytest.approx(6**-1.1)
  err = capfd.readouterr().err
  assert f"epsilon = {expected:.3g}" in err
  assert "drawn uniformly without replacement" in err
  exported = experiments.export(run, tmp_path / "model.keras")
  card = exported.card.read_text().replace("\\_", "_")
  assert f"epsilon {expected:.3g}" in card
  assert len(spent["left_out"]) == 2 + len(named)
  for text in spent["left_out"]:
    assert text in err
    assert text in card


@pytest.mark.parametrize(
  ("values", "field"),
  [
    (
      {
        "algorithm": "vred",
        "client_weighting": "uniform",
        "dp_noise": 1.0,
        "dp_clip": 1.0,
      },
      "dp_noise",
    ),
    ({"algorithm": "term", "aggregation": "secure"}, "hparams"),
    ({"personal_lam": 0.1, "aggregation": "secure"}, "aggregation"),
    ({"aggregation": "secure", "defence": "clipping"}, "defence"),
  ],
)
def test_what_does_not_go_with_the_method_is_named(tmp_path, values, field):
  with rejected(field):
    train(SPEC.replace(**values), tmp_path / "run")
