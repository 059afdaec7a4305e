"""Export: which model or form of a round, in which format, and where."""

import pathlib

from absl import flags

from binaries import command_line
from binaries.command_line import UsageError
from tff_fair.experiments.exporting import places

# These flags share names, not meanings, with those of other programs.
NAMESPACE = flags.FlagValues()

_OUTPUT = flags.DEFINE_string(
  "output",
  None,
  "The model to write: a file *.keras or *.tflite, or a folder. Its model card "
  "comes beside it, model.keras with model_card.md.",
  flag_values=NAMESPACE,
)
_FORMAT = flags.DEFINE_enum(
  "format",
  None,
  places.FORMATS,
  "keras, Keras' own file; savedmodel, a folder for all that serves models; or "
  "tflite, for phones. By default the one that --output is named after.",
  flag_values=NAMESPACE,
)
_FORM = flags.DEFINE_enum(
  "form",
  None,
  ["mapreduce"],
  "Write a round instead of a model: as mapreduce, the computations of TFF's "
  "MapReduceForm, into the folder --output. For runs whose sums are streaming, "
  "stacked or secure.",
  flag_values=NAMESPACE,
)
_BEST = flags.DEFINE_boolean(
  "best",
  False,
  "Take the model at the best evaluation, which a run with --criterion keeps, "
  "instead of the last one.",
  flag_values=NAMESPACE,
)
_CLIENT = flags.DEFINE_string(
  "client",
  None,
  "Name of the client whose personal model to write, of a run with ditto or "
  "--personal_lam. By default it is the global model.",
  flag_values=NAMESPACE,
)
_ALL_CLIENTS = flags.DEFINE_boolean(
  "all_clients",
  False,
  "Write the personal models of all clients into the folder --output.",
  flag_values=NAMESPACE,
)
_OVERWRITE = flags.DEFINE_boolean(
  "overwrite",
  False,
  "Replace an earlier export, and its card.",
  flag_values=NAMESPACE,
)


def output() -> pathlib.Path:
  """Returns where the model goes.

  Raises:
    UsageError: If the flag is missing, or is no path.
  """
  if not _OUTPUT.value:
    raise UsageError(
      "--output: is missing; name the file to write, as model.keras."
    )
  return command_line.path("output", _OUTPUT.value)


def format_name() -> str | None:
  """Returns the format that was given, if one was."""
  return _FORMAT.value


def form() -> str | None:
  """Returns the form in which to write a round, if one was given.

  Raises:
    UsageError: If a flag of models is given, too.
  """
  if _FORM.value is not None:
    for flag in (_FORMAT, _BEST, _CLIENT, _ALL_CLIENTS):
      if flag.present:
        raise UsageError(
          f"--{flag.name}: is of models, and --form writes a round; leave one "
          "of the two out."
        )
  return _FORM.value


def best() -> bool:
  """Returns whether to take the model at the best evaluation."""
  return _BEST.value


def client() -> str | None:
  """Returns the client whose personal model to write, if one was given."""
  return _CLIENT.value


def all_clients() -> bool:
  """Returns whether to write the personal models of all clients."""
  return _ALL_CLIENTS.value


def overwrite() -> bool:
  """Returns whether an earlier export may be replaced."""
  return _OVERWRITE.value
