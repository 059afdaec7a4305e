"""Exports: the trained model of a run as a file, with a model card beside."""

from __future__ import annotations

import contextlib
import os
import pathlib
import typing
from collections.abc import Iterator
from typing import NamedTuple

from tasks.formats import files
from tff_fair.declared import FieldError
from tff_fair.experiments import spreadsheets
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.exporting import card, formats, personal, places
from tff_fair.experiments.runs import architecture, finding, trained_model
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.runs.run import Run

if typing.TYPE_CHECKING:
  from tff_fair.experiments.runs.trained_model import Weights


class Exported(NamedTuple):
  """What an export has written.

  Attributes:
    path: The model: a file, or a folder.
    card: The model card.
    round_num: The round whose model it is.
    notes: What the user should know, in sentences.
  """

  path: pathlib.Path
  card: pathlib.Path
  round_num: int
  notes: tuple[str, ...]


def export(
  run: Run | str | os.PathLike[str],
  output: str | os.PathLike[str],
  *,
  format: str | None = None,
  best: bool = False,
  client: str | None = None,
  all_clients: bool = False,
  overwrite: bool = False,
) -> Exported:
  """Writes the trained model of a run, and a model card beside it.

  The model needs neither this library nor TensorFlow Federated. It takes the
  task's x, or raw columns where the task has a preprocessing, and returns
  probabilities, or numbers. The card says how to load it.

  Args:
    run: The run, or its folder.
    output: Where to write. A model in the format keras is a file *.keras, one
      in tflite a file *.tflite, one in savedmodel a folder; with `all_clients`
      it is a folder of such.
    format: "keras", "savedmodel" or "tflite"; by default the one that `output`
      is named after.
    best: Whether to take the model at the best evaluation, which a run with a
      `criterion` keeps, and not the last that the run saved.
    client: Name of the client whose personal model to write, of a method that
      trains some. By default it is the global model.
    all_clients: Whether to write all personal models into a folder.
    overwrite: Whether to replace an earlier export.

  Returns:
    Where the model is, and notes about it.

  Raises:
    FieldError: If an argument does not go with the run, or `output` cannot
      be written; a ValueError.
    RunError: If the run is damaged, or has not saved its model.
    tasks.DataError: If only the data of the task tell the model, and cannot be
      used.
  """
  if not isinstance(run, Run):
    run = finding.open_run(run)
  output = pathlib.Path(output)
  if client is not None and all_clients:
    raise FieldError("all_clients", "leave it out, or client.")
  kind = format or places.KERAS
  if not all_clients:
    kind = places.format_of(output, format)
  elif kind not in places.FORMATS:
    raise FieldError(
      "format", f"unknown; valid: {', '.join(places.FORMATS)}.", value=format
    )
  places.check_free(output, overwrite=overwrite)
  weights = trained_model.load(RunFolder(run.path), best=best)
  if all_clients:
    personal.check(run, weights, "all_clients", None)
  client_id = None
  if client is not None:
    personal.check(run, weights, "client", client)
    client_id = personal.find(run, client)
  found = architecture.find(RunFolder(run.path), run.config, run.spec)
  with _blaming_description(run):
    writer = formats.Writer(found, kind)
    writer.predictor.assign(weights.of_model(client_id))
  with places.written(output, overwrite=overwrite) as staged:
    if all_clients:
      _write_all(run, weights, writer, staged)
    else:
      writer.write(weights.of_model(client_id), staged)
    text = card.text(
      card.Subject(
        run=run,
        weights=weights,
        architecture=found.architecture,
        predictor=writer.predictor,
        file_name=output.name,
        kind=kind,
        best=best,
        client_id=client_id,
        all_clients=all_clients,
        notes=writer.notes,
      )
    )
  place = places.card_of(output)
  files.write(place, text)
  return Exported(output, place, weights.round_num, writer.notes)


@contextlib.contextmanager
def _blaming_description(run: Run) -> Iterator[None]:
  """Has Keras' errors name the description of the model, if it is from there.

  Raises:
    RunError: If the described model cannot be built, or has other weights.
  """
  try:
    yield
  except FieldError:
    raise
  except (AttributeError, LookupError, TypeError, ValueError) as error:
    path = RunFolder(run.path).model
    if not path.exists():
      raise
    reason = " ".join(str(error).split())[:200]
    raise RunError(
      f"{path}: describes no model of this run ({reason}); restore it, or move "
      "it away: then the model comes from the task."
    ) from error


def _write_all(
  run: Run, weights: Weights, writer: formats.Writer, folder: pathlib.Path
) -> None:
  """Writes all personal models, and which is whose."""
  folder.mkdir()
  clients = personal.names(run, weights.personal or {})
  file_names = personal.file_names(clients, places.SUFFIXES[writer.kind])
  for client_id, name in file_names.items():
    writer.write(weights.of_model(client_id), folder / name)
  places.write_index(
    folder,
    (
      (client_id, spreadsheets.quoted(clients[client_id]), name)
      for client_id, name in file_names.items()
    ),
  )
