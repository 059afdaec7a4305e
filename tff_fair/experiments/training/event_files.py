"""Writes event files for TensorBoard, which a resumed run continues."""

import pathlib
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import tensorflow as tf
from tensorboard.compat.proto import summary_pb2
from tensorboard.plugins.hparams import api as hparams
from tensorboard.plugins.scalar import summary_v2 as scalars
from tensorflow.core.util import event_pb2

from tff_fair import declared
from tff_fair.experiments.analysis import measures
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import tables
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.spec.scores import ACCURACY, Score
from tff_fair.experiments.training.callbacks import Writer
from tff_fair.experiments.training.round_state import RoundState
from tff_fair.files import atomic

# Folders of events: of rounds, of evaluations, and of evaluated clients.
TRAIN, _TEST, _CLIENTS = "train", "test", "clients"
_NO_RESULTS = ("client_id", "num_examples")  # Columns without a histogram.
_FINAL = ("mean", "std", "worst_10", "best_10", "loss")  # For the tab HParams.


class TensorBoard(Writer):
  """Writes events about a run's rounds, evaluations and evaluated clients."""

  def __init__(self, folder: RunFolder) -> None:
    self._folder = folder
    self._writers: dict[str, tf.summary.SummaryWriter] = {}

  def _writer(self, name: str) -> tf.summary.SummaryWriter:
    if name not in self._writers:
      path = str(self._folder.tensorboard / name)
      self._writers[name] = tf.summary.create_file_writer(path)
    return self._writers[name]

  def write(self, state: RoundState) -> None:
    """Writes the numbers of a round, and histograms over clients."""
    self._folder.check_place()
    if state.round_num:
      write_numbers(self._writer(TRAIN), state.metrics, state.round_num)
    if (found := state.evaluation) is not None:
      write_numbers(self._writer(_TEST), found.summary, state.round_num)
      write_histograms(self._writer(_CLIENTS), found.clients, state.round_num)


def write_numbers(
  writer: tf.summary.SummaryWriter, value: object, round_num: int
) -> None:
  """Writes the scalars in `value` in one event, and arrays as histograms."""
  # TFF's release manager writes an event for each number; that is 10x slower.
  numbers = summary_pb2.Summary()
  with writer.as_default():
    for name, leaf in leaves(value):
      array = np.asarray(leaf)
      if array.dtype.kind not in "biuf":
        continue
      if array.shape:
        tf.summary.histogram(name, array, step=round_num)
      else:
        with np.errstate(over="ignore"):  # `scalar_pb` casts to float32.
          numbers.MergeFrom(scalars.scalar_pb(name, array))
    if numbers.value:
      tf.summary.experimental.write_raw_pb(
        numbers.SerializeToString(), step=round_num
      )


def write_histograms(
  writer: tf.summary.SummaryWriter,
  columns: Mapping[str, np.ndarray],
  round_num: int,
) -> None:
  """Writes a histogram for each column, which has one entry per client."""
  with writer.as_default():
    for name, column in columns.items():
      if name in _NO_RESULTS:
        continue
      numbers = np.asarray(column, np.float64)
      # Histograms cannot hold the infinite or NaN losses of a diverged model.
      numbers = numbers[np.isfinite(numbers)]
      if numbers.size:
        tf.summary.histogram(f"clients/{name}", numbers, step=round_num)
  writer.flush()


def write_hparams(
  folder: RunFolder, spec: RunSpec, score: Score = ACCURACY
) -> None:
  """Writes the settings and last evaluation for TensorBoard's tab HParams."""
  path = folder.tensorboard / "hparams"
  earlier = _event_files(path)  # From a run that was killed at its very end.
  last = tables.read_required(folder.path, tables.evaluations(score)).iloc[-1]
  place = folder.path.resolve()
  with tf.summary.create_file_writer(str(path)).as_default():
    # Runs with equal ids would share a row. As columns cut off the ends of ids,
    # the name is first.
    hparams.hparams(_settings(spec), trial_id=f"{place.name} in {place.parent}")
    for name in _FINAL:
      value = last[measures.by_name(score)[name].column]
      tf.summary.scalar(f"final/{name}", value, step=int(last["round"]))
  for file in earlier:
    file.unlink()


def keep_rounds(
  folder: RunFolder, last_round: int, is_due: Callable[[int], bool]
) -> None:
  """Removes events after `last_round`, and of evaluations that are not due."""
  for file in _event_files(folder.tensorboard):
    of_rounds = file.is_relative_to(folder.tensorboard / TRAIN)
    records = list(_records(file))
    steps = [event_pb2.Event.FromString(record).step for record in records]
    kept = [
      record
      for record, step in zip(records, steps, strict=True)
      if step <= last_round and (of_rounds or is_due(step))
    ]
    if len(kept) == len(records):
      continue
    # The name is like those of TFF's temporary files; TensorBoard ignores it.
    rewritten = file.with_name(f"rewritten_{file.stat().st_mtime_ns}_temp0")
    with tf.io.TFRecordWriter(str(rewritten)) as writer:
      for record in kept:
        writer.write(record)
    atomic.sync(rewritten)
    rewritten.replace(file)


def _settings(spec: RunSpec) -> dict[str, bool | float | str]:
  """Returns the settings that have a value, as numbers or strings."""
  return {
    name: value
    if isinstance(value, bool | int | float)
    else declared.as_text(value)
    for name, value in spec.effective().items()
    if value not in (None, "")
  }


def _event_files(path: pathlib.Path) -> list[pathlib.Path]:
  return sorted(path.rglob("events.out.tfevents.*"))


def _records(file: pathlib.Path) -> Iterator[bytes]:
  """Yields the complete records of a file, which may be cut off at its end."""
  records = tf.data.TFRecordDataset(str(file)).as_numpy_iterator()
  try:
    yield from records
  except tf.errors.DataLossError:
    return
  except tf.errors.OpError as error:
    reason = " ".join(error.message.split())
    raise RunError(
      f"{file.parent}: {file.name} cannot be read: {reason}. It is only for "
      "TensorBoard: make it readable or move it away, and start again."
    ) from error


def leaves(value: object, name: str = "") -> Iterator[tuple[str, object]]:
  """Yields the leaves of a structure with TFF's names, such as "a/0/b"."""
  if isinstance(value, Mapping):
    parts = [(key, value[key]) for key in sorted(value)]
  elif isinstance(value, list | tuple):
    names = getattr(value, "_fields", range(len(value)))
    parts = list(zip(names, value, strict=True))
  else:
    yield name, value
    return
  for key, part in parts:
    yield from leaves(part, f"{name}/{key}" if name else str(key))
