"""Tests of event files, as TensorBoard reads them."""

import asyncio
import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import plugin_data_pb2

from tests.experiments import run_folders
from tests.experiments.training.rounds_test import round_state
from tff_fair.experiments import RunError, RunSpec
from tff_fair.experiments.runs import folder as run_folder
from tff_fair.experiments.training import event_files
from tff_fair.experiments.training.round_state import RoundEvaluation

CLIENTS = {
  "client_id": np.arange(4),
  "num_examples": np.array([5, 6, 7, 8]),
  "loss": np.array([0.5, np.nan, np.inf, 1.5], np.float32),
  "accuracy": np.array([0.25, 0.5, 0.5, 1.0], np.float32),
}
SPEC = RunSpec(
  algorithm="adafed", hparams={"gamma": 0.5}, total_rounds=2, local_epochs="1-3"
)


def read(path):
  reader = event_accumulator.EventAccumulator(str(path))
  reader.Reload()
  return reader


def steps(path, tag):
  return [event.step for event in read(path).Tensors(tag)]


def write_rounds(folder, *rounds):
  writer = event_files.TensorBoard(folder)
  evaluation = RoundEvaluation({"accuracy": {"mean": 0.5}}, CLIENTS)
  for round_num in rounds:
    writer.write(round_state(round_num, evaluation=evaluation))


def test_each_evaluation_has_a_histogram_over_clients(folder):
  write_rounds(folder, 2, 4)
  reader = read(folder.tensorboard / "clients")
  assert sorted(reader.Tags()["tensors"]) == [
    "clients/accuracy",
    "clients/loss",
  ]
  for tag, finite in (
    ("clients/accuracy", [0.25, 0.5, 0.5, 1.0]),
    ("clients/loss", [0.5, 1.5]),  # A diverged loss has no bin.
  ):
    events = reader.Tensors(tag)
    assert [event.step for event in events] == [2, 4]
    buckets = tf.make_ndarray(events[0].tensor_proto)  # [from, to, count].
    assert buckets[:, 2].sum() == len(finite)
    assert buckets[0, 0] == min(finite)
    assert buckets[-1, 1] == max(finite)
  # The folder of scalars has no histograms.
  assert read(folder.tensorboard / "test").Tags()["tensors"] == [
    "accuracy/mean"
  ]


def test_numbers_are_those_that_tff_writes(tmp_path):
  value = {
    "train": {"loss": np.float32(0.1), "steps": np.int64(2**40), "done": True},
    "nan": np.nan,
    "text": "not a number",
    "many": np.array([0.5, 2.0, np.inf], np.float64)[:2],
    "empty": (),
  }
  found = {}
  ours = tf.summary.create_file_writer(str(tmp_path / "ours"))
  theirs = tff.program.TensorBoardReleaseManager(tmp_path / "theirs")
  for key in (3, 4):
    event_files.write_numbers(ours, value, key)
    asyncio.run(theirs.release(value, key))
  ours = theirs = None  # Closes the files.
  for name in ("ours", "theirs"):
    reader = read(tmp_path / name)
    found[name] = {
      tag: (
        reader.summary_metadata[tag].SerializeToString(),
        [
          (
            e.step,
            e.tensor_proto.dtype,
            tf.make_ndarray(e.tensor_proto).tolist(),
          )
          for e in reader.Tensors(tag)
        ],
      )
      for tag in reader.Tags()["tensors"]
    }
  assert sorted(found["ours"]) == [
    "many",
    "nan",
    "train/done",
    "train/loss",
    "train/steps",
  ]
  assert str(found["ours"]) == str(found["theirs"])  # NaN never equals NaN.


def is_even(round_num):
  return round_num % 2 == 0


def test_rounds_that_come_again_or_are_not_due_are_not_there_twice(folder):
  write_rounds(folder, 1, 2, 3, 4, 5)
  event_files.keep_rounds(folder, 4, is_even)
  write_rounds(folder, 5)
  for part, tag in (("test", "accuracy/mean"), ("clients", "clients/accuracy")):
    # TensorBoard reads files of the same second in the order of their names, so
    # steps may be in another order.
    assert sorted(steps(folder.tensorboard / part, tag)) == [2, 4, 5]


def test_event_files_that_need_nothing_stay_as_they_are(folder):
  event_files.keep_rounds(folder, 0, is_even)
  write_rounds(folder, 2)
  (path,) = (folder.tensorboard / "clients").iterdir()
  before = path.stat().st_ino, path.read_bytes()
  event_files.keep_rounds(folder, 2, is_even)
  assert (path.stat().st_ino, path.read_bytes()) == before
  path.write_bytes(before[1] + b"cut off")
  event_files.keep_rounds(folder, 2, is_even)
  event_files.keep_rounds(folder, 0, is_even)
  assert read(path.parent).Tags()["tensors"] == []


def test_an_event_file_that_cannot_be_read_is_named(folder):
  path = folder.tensorboard / "test" / "events.out.tfevents.1"
  path.mkdir(parents=True)
  with pytest.raises(RunError, match=r"tfevents\.1\b") as error:
    event_files.keep_rounds(folder, 1, is_even)
  assert "\n" not in str(error.value)


def test_settings_and_final_measures_are_in_the_hparams(tmp_path):
  folder = run_folder.RunFolder(run_folders.make(tmp_path / "run"))
  event_files.write_hparams(folder, SPEC)
  event_files.write_hparams(folder, SPEC)  # Repeated after a kill.
  (path,) = (folder.tensorboard / "hparams").iterdir()
  reader = read(path.parent)
  data = plugin_data_pb2.HParamsPluginData.FromString(
    reader.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
  )
  found = data.session_start_info.hparams
  assert found["hparam.gamma"].number_value == 0.5
  assert found["algorithm"].string_value == "adafed"
  assert found["local_epochs"].string_value == "1-3"
  assert found["seed"].number_value == 0
  assert "server_momentum" not in found  # This setting has no value.
  (event,) = reader.Tensors("final/mean")
  assert event.step == json.loads(folder.summary.read_text())["rounds"]
  assert float(tf.make_ndarray(event.tensor_proto)) == pytest.approx(0.7)
