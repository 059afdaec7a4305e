"""The formats of exports, and the paths that an export writes."""

import contextlib
import csv
import functools
import pathlib
from collections.abc import Iterator, Mapping

from tff_fair import declared
from tff_fair.declared import FieldError
from tff_fair.files import atomic

KERAS, SAVED_MODEL, TFLITE = "keras", "savedmodel", "tflite"
# The suffix of each format; a SavedModel is a folder, which has none.
SUFFIXES: Mapping[str, str] = {
  KERAS: ".keras",
  SAVED_MODEL: "",
  TFLITE: ".tflite",
}
FORMATS = tuple(SUFFIXES)
# The file that lists the models in a folder of personal models.
INDEX = "clients.csv"
INDEX_COLUMNS = ("client_id", "client", "file")

# The file that describes a round's computations, in their folder.
FORM = "form.json"
COMPUTATION = ".pb"
FORM_NOTES = "README.md"

_SAVED_MODEL_FILE = "saved_model.pb"


def format_of(
  output: pathlib.Path, given: str | None, *, of_several: bool = False
) -> str:
  """Returns the format `given`, or else the format that `output` implies."""
  if given is not None:
    declared.check_choice("format", given, FORMATS)
  if of_several:
    return given or KERAS
  by_suffix = {suffix: name for name, suffix in SUFFIXES.items() if suffix}.get(
    output.suffix.lower(), SAVED_MODEL
  )
  if given is None and by_suffix == SAVED_MODEL and _is_of_file(output):
    raise FieldError(
      "output",
      "has no known format; name a file *.keras or *.tflite, or a folder, as "
      f"{output.with_suffix('')}; with the format savedmodel, a folder may "
      "have any name.",
      value=str(output),
    )
  if given is None or given == by_suffix:
    return by_suffix
  better = output.with_suffix(SUFFIXES[given])
  raise FieldError(
    "output",
    f"is not the name of a model in the format {given}; name it {better}.",
    value=str(output),
  )


def _is_of_file(path: pathlib.Path) -> bool:
  """Returns whether a path's suffix looks like a file type, unlike ".v2"."""
  ending = path.suffix.removeprefix(".")
  return ending.isalpha() or ending.lower() in ("h5", "hdf5")


def card_path(output: pathlib.Path) -> pathlib.Path:
  """Returns the path of the model card, next to the model."""
  # The cards of m.keras and m.tflite are m_card.md and m_tflite_card.md, so
  # that both models can be in one folder.
  parts = [output.stem, output.suffix.removeprefix("."), "card.md"]
  if output.suffix.lower() in ("", SUFFIXES[KERAS]):
    del parts[1]
  return output.with_name("_".join(parts))


def check_free(output: pathlib.Path, *, overwrite: bool) -> None:
  """Checks that an export can write the output and its model card."""
  if not output.name:
    raise FieldError("output", "has no name; name a file or a new folder.")
  with _reporting_output_errors():
    atomic.check_free(card_path(output), overwrite=overwrite)
    if not output.is_dir():
      atomic.check_free(output, overwrite=overwrite)
    elif not overwrite:
      raise FileExistsError(
        f"{output}: exists already; allow to replace it (--overwrite), or name "
        "another place."
      )
    elif not _is_export(output):
      raise FileExistsError(
        f"{output}: is a folder with files that are not exports; name another "
        "place."
      )


@contextlib.contextmanager
def staging(output: pathlib.Path, *, overwrite: bool) -> Iterator[pathlib.Path]:
  """Yields a temporary path for a file or folder, then moves it to `output`."""
  check = functools.partial(check_free, output, overwrite=overwrite)
  check()
  with (
    _reporting_output_errors(),
    atomic.move_when_complete(output, check) as staged,
  ):
    yield staged


def write_index(
  folder: pathlib.Path, rows: Iterator[tuple[int, str, str]]
) -> None:
  """Writes the index of a folder: the id, name and file of each client."""
  with (folder / INDEX).open("w", encoding="utf-8", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(INDEX_COLUMNS)
    writer.writerows(rows)


def _is_export(folder: pathlib.Path) -> bool:
  if (folder / _SAVED_MODEL_FILE).is_file():
    return True
  if (folder / FORM).is_file():
    return all(
      p.name in (FORM, FORM_NOTES) or p.suffix == COMPUTATION
      for p in folder.iterdir()
    )
  if not (folder / INDEX).is_file():
    return False
  with (folder / INDEX).open(encoding="utf-8", newline="") as file:
    try:
      rows = [tuple(row) for row in csv.reader(file) if row]
    except (csv.Error, UnicodeDecodeError):
      return False
  ours = {INDEX, *(row[-1] for row in rows)}
  return (
    rows[:1] == [INDEX_COLUMNS] and {p.name for p in folder.iterdir()} <= ours
  )


@contextlib.contextmanager
def _reporting_output_errors() -> Iterator[None]:
  try:
    yield
  except OSError as error:
    reason = error.strerror or str(error)
    if error.filename:
      reason = f"{error.filename}: {reason}"
    raise FieldError("output", reason) from error
