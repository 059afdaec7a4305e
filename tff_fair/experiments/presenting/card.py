"""The model card: what a stranger should know of an exported model.

A page in Markdown after Mitchell et al., "Model Cards for Model Reporting"
(FAT* 2019): what the model is, how to load it, its data, its training, how it
serves each client, and what the numbers do not show. It has no names of
clients and no paths, so that it may go to others with the model.
"""

import collections
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

from tff_fair import declared, methods
from tff_fair.escaping import markdown, markdown_code
from tff_fair.experiments.analysis import (
  groups,
  references,
)
from tff_fair.experiments.analysis.questions import Question
from tff_fair.experiments.presenting import card_fairness, export_paths
from tff_fair.experiments.presenting.model_formats import Predictor
from tff_fair.experiments.runs import summaries
from tff_fair.experiments.runs.model_files import PREDICTED_CLASS
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.runs.trained_model import Architecture, Weights
from tff_fair.experiments.spec import spec_text
from tff_fair.experiments.texts import fairness_table, run_warnings, sentences

# Settings that readers look for, even where they are the usual ones.
_SHOWN = (
  *("total_rounds", "clients_per_round", "local_epochs", "batch_size"),
  *("client_optimizer", "client_learning_rate", "seed"),
)
# Those that the card tells elsewhere, and places on the machine.
_NOT_SHOWN = ("task", "algorithm", "data_dir")
_PATHS = (
  *("model", "initial_model", "initial_run"),
  *(f"{spec_text.TASK_OPTION}{n}" for n in ("file", "loss", "split_file")),
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
  """What a card is about.

  Attributes:
    run: The run.
    weights: Its weights.
    architecture: Its model without weights.
    predictor: The model as it was written.
    file_name: Name of the file, or of the folder.
    kind: Its format, one of `places.FORMATS`.
    best: Whether it is the model at the best evaluation.
    client_id: The client whose personal model it is; None if it is no client's.
    all_clients: Whether the folder has the personal models of all clients.
    question: What its intervals answer.
    notes: What the user should know about the format, in sentences.
    baselines: Finished runs on the same data to compare it with.
  """

  run: Run
  weights: Weights
  architecture: Architecture
  predictor: Predictor
  file_name: str
  kind: str
  best: bool
  client_id: int | None
  all_clients: bool
  question: Question
  notes: tuple[str, ...]
  baselines: tuple[Run, ...] = ()

  @property
  def is_personal(self) -> bool:
    """Whether the models are those of single clients."""
    return self.client_id is not None or self.all_clients


def text(subject: Subject) -> str:
  """Returns the card of a model."""
  evaluation = card_fairness.read(
    subject.run,
    subject.weights.round_num,
    of_global=subject.weights.personal is not None and not subject.is_personal,
    client_id=subject.client_id,
  )
  limits = [
    *card_fairness.limits(evaluation, subject.architecture.num_clients),
    *_limits(subject),
  ]
  saved = subject.run.config["versions"]
  versions = [markdown(f"{name} {version}") for name, version in saved.items()]
  parts = [
    f"# Model card: {markdown(subject.file_name)}",
    _summary(subject),
    "## How to load it",
    *usage(
      subject.predictor,
      subject.architecture,
      subject.kind,
      subject.file_name,
      in_folder=subject.all_clients,
    ),
    *(
      map(markdown, sentences.threshold(subject.run.summary or {}))
      if subject.predictor.decides
      else []
    ),
    *subject.notes,
    "## Data",
    *_data(subject),
    "## Training",
    *_training(subject),
    "## How it serves each client",
    *card_fairness.paragraphs(
      evaluation, subject.weights.round_num, subject.question
    ),
    _gain(subject),
    "## Limits",
    "\n".join(f"- {sentence}" for sentence in limits),
    "## Versions",
    f"Trained with {', '.join(versions)}.",
  ]
  return "\n\n".join(filter(None, parts)) + "\n"


def _gain(subject: Subject) -> str:
  """Returns what the worst clients have of the model and of its baselines."""
  if not subject.baselines:
    return ""
  run, baselines = subject.run, subject.baselines
  weights = references.weights_note(groups.group([run, *baselines]))
  return " ".join(
    [
      markdown(
        fairness_table.gain(
          run.summary or {},
          {found.title: found.summary or {} for found in baselines},
        )
      ),
      "Each is one run; the baselines have the client learning rates "
      f"{', '.join(f'{r.spec.client_learning_rate:g}' for r in baselines)}.",
      weights,
    ]
  ).rstrip()


def _summary(subject: Subject) -> str:
  run, trained = subject.run, subject.predictor.trained
  whose = "The global model"
  if subject.client_id is not None:
    whose = "The personal model of one client"
    if subject.client_id not in (subject.weights.personal or {}):
      whose += ", which has not trained yet: it is the global one"
  elif subject.all_clients:
    whose = f"The personal models of {len(subject.weights.personal or {}):,} "
    whose += "clients, one file each; `clients.csv` says which is whose"
  chosen = ""
  if subject.best and run.spec.criterion:
    chosen = f", the best evaluation by {run.spec.criterion}"
  return (
    f"{whose}. Federated learning trained it on the task "
    f"{markdown_code(_without_folders(run.task))} with the method "
    f"{markdown_code(run.algorithm)}; these "
    f"are its weights after round {subject.weights.round_num:,} of "
    f"{run.spec.total_rounds:,}{chosen}. It has "
    f"{trained.count_params():,} weights in {_layers(subject)}."
  )


def _without_folders(name: str) -> str:
  """Returns a file's own name, with a function in it if one is named."""
  return pathlib.PurePath(name).name


def _layers(subject: Subject) -> str:
  numbers = collections.Counter(
    type(layer).__name__
    for layer in subject.predictor.trained.layers
    if layer.count_params()
  )
  return "layers " + ", ".join(
    markdown(f"{number} x {kind}" if number > 1 else kind)
    for kind, number in numbers.items()
  )


def _data(subject: Subject) -> list[str]:
  description = subject.run.config["data"]["description"]
  number = subject.architecture.num_clients
  sentences = [
    f"{markdown(description)}.",
    f"Training simulated a federation of {number:,} clients: one program read "
    "the data of all of them, and passed only updates of the model from their "
    "part of the training to the server's."
    if number > 1
    else "",
  ]
  return [
    " ".join(filter(None, sentences)),
    "The licence of the data is not known here.",
  ]


def _training(subject: Subject) -> list[str]:
  run = subject.run
  name = f"{markdown(run.title)} (`{run.algorithm}`)"
  rows = {"method": name, **_settings(run)}
  lines = ["| setting | value |", "|---|---|"]
  lines += [f"| {name} | {value} |" for name, value in rows.items()]
  return [
    methods.reference(run.algorithm),
    "\n".join(lines),
    "Settings that are not here have their defaults.",
  ]


def _settings(run: Run) -> Mapping[str, str]:
  found = {name: run.flags[name] for name in _SHOWN}
  if run.spec.local_steps is not None:
    del found["local_epochs"]  # Steps take their place.
  rows = {name: declared.as_text(v) for name, v in found.items()}
  rows |= {
    name: _for_strangers(name, value)
    for name, value in spec_text.texts(run.spec).items()
    if name not in (*_SHOWN, *_NOT_SHOWN)
  }
  rows |= {
    f"{spec_text.HPARAM}{name}": declared.as_text(value)
    for name, value in run.spec.all_hparams.items()
  }
  return {
    markdown_code(name).replace("|", r"\|"): markdown(value)
    for name, value in rows.items()
  }


def _for_strangers(name: str, value: str) -> str:
  """Returns a setting's value without folders and clients' names."""
  if name == "unseen_clients":
    return ", ".join(map(_without_name, value.split(",")))
  if name == "join_round":
    parts = [part.rpartition(":") for part in value.split(",")]
    return ", ".join(f"{_without_name(who)}:{first}" for who, _, first in parts)
  # A user's task may take any path.
  if name in _PATHS or value.startswith(("/", "~", "./", "../")):
    return _without_folders(value)
  return value


def _without_name(client: str) -> str:
  """Returns a share of the clients as it is, "a client" for one by name."""
  try:
    is_share = 0 < float(client) < 1
  except ValueError:
    is_share = False
  return client if is_share else "a client"


def _limits(subject: Subject) -> list[str]:
  run, spec = subject.run, subject.run.spec
  summary = run.summary or {}
  wrong = run_warnings.of_run(run, subject.weights.round_num)
  remarks = (
    *sentences.majority(summary),
    sentences.joining(summary, run.score),
    sentences.fine_tuned(summary, run.score),
    *sentences.newcomers(summary, run.score),
    *sentences.groups(summary),
    *wrong,
    None if wrong else sentences.stationarity(summary),
  )
  found = [markdown(sentence) for sentence in remarks if sentence]
  if summaries.THRESHOLD in summary and not subject.predictor.decides:
    found.append(
      "The run chose a decision threshold for its last models alone, as it "
      "evaluated them; this model has none."
    )
  if subject.best:
    found.append(
      f"{100 * spec.validation_share:g} % of each client's training data "
      "chose this model among those of other rounds; the test data did not."
    )
  if not run.is_finished:
    found.append("The run is not finished.")
  if spec.attack != "none":
    found.append(
      f"{100 * spec.attack_share:g} % of the clients attacked the training "
      f"(`{spec.attack}`, strength {spec.attack_strength:g})."
    )
  if spec.defence != "none":
    found.append(
      f"The server defended itself (`{spec.defence}`). Updates out of the "
      "ordinary count less, those of unusual clients, too."
    )
  if subject.weights.personal is not None and not subject.is_personal:
    found.append(
      "The clients have personal models, too, which may serve them better; "
      "they are not in this file."
    )
  return [
    *found,
    f"It is one run with the seed {run.seeds}. Another seed gives another "
    "model and other numbers.",
    "Fair means here that clients fare alike."
    if summaries.GROUPS in summary
    else "Fair means here that clients fare alike. The numbers say nothing "
    "about groups of people within a client.",
    _privacy(run),
  ]


def _privacy(run: Run) -> str:
  """Says what noise the training had."""
  spent = (run.summary or {}).get("privacy")
  if spent is None and run.flags["dp_noise"] is None:
    return (
      "Training added no noise for privacy. A user of the model may learn "
      "something of the data."
    )
  if spent is None:
    return "Training added noise for privacy; the run has not ended."
  return (
    "Training added noise for differential privacy: epsilon "
    f"{spent['epsilon']:.3g} at delta {spent['delta']:.2g}. "
    f"{spent['assumption']} Epsilon leaves out: "
    f"{'; '.join(spent['left_out'])}."
  )


# What goes into an exported model, what comes out, and how to load it.


_MISSING = {"number": "`NaN`", "text": "an empty text"}
_OF_KIND = {"number": ("None", "tf.float32"), "text": ('""', "tf.string")}
_MOST_CLASS_NAMES = 50
_LOADING: Mapping[str, str] = {
  export_paths.KERAS: "model = tf.keras.models.load_model({name})",
  export_paths.SAVED_MODEL: (
    "loaded = tf.saved_model.load({name})\n"
    'model = loaded.signatures["serving_default"]'
  ),
  export_paths.TFLITE: (
    "interpreter = tf.lite.Interpreter({name})\n"
    "model = interpreter.get_signature_runner()"
  ),
}


def usage(
  model: Predictor,
  described: Architecture,
  kind: str,
  file_name: str,
  *,
  in_folder: bool = False,
) -> list[str]:
  """Returns how to load and call a model."""
  name = file_name
  if in_folder:
    name += f"/CLIENT{export_paths.SUFFIXES[kind]}"
  return [
    f"```python\n{_code(model, described, kind, name)}\n```",
    _inputs(model, described),
    _outputs(model, described),
  ]


def _code(
  model: Predictor, described: Architecture, kind: str, name: str
) -> str:
  lines = ["import tensorflow as tf", ""]
  if model.takes_columns:
    lines = ["import pandas as pd", *lines, *_frame(described)]
    x, arguments = "columns", _arguments(model, kind)
  else:
    known = zip(model.x.shape, [2, *described.x_shape], strict=True)
    sizes = [
      usual if found_size is None else found_size for found_size, usual in known
    ]
    comment = "One example." if sizes[0] == 1 else "Two examples."
    lines += [f"x = tf.zeros({sizes}, tf.{model.x.dtype.name})  # {comment}"]
    x, arguments = "x", "x=x"
  call = f"model({x if kind == export_paths.KERAS else arguments})"
  load = _LOADING[kind].format(name=repr(name))
  return "\n".join([*lines, load, *_results(model, kind, call)])


def _results(model: Predictor, kind: str, call: str) -> list[str]:
  """Returns the lines that call a model, and take its outputs as arrays."""
  ending = "" if kind == export_paths.TFLITE else ".numpy()"
  if model.decides:
    names = (model.output, PREDICTED_CLASS)
    taken = [f'{name} = outputs["{name}"]{ending}' for name in names]
    return [f"outputs = {call}", *taken]
  place = "" if kind == export_paths.KERAS else f'["{model.output}"]'
  return [f"{model.output} = {call}{place}{ending}"]


def _frame(described: Architecture) -> list[str]:
  """Returns a frame of two examples, a usual and an empty one, and its use."""
  values, tensors = [], []
  for name, kind in described.columns.items():
    missing, dtype = _OF_KIND[kind]
    values.append(f"  {name!r}: [{described.typical[name]!r}, {missing}],")
    tensors.append(f"  {name!r}: tf.constant(frame[{name!r}], {dtype}),")
  return [
    "frame = pd.DataFrame({  # A usual example, and one that lacks all values.",
    *values,
    "})",
    "columns = {",
    *tensors,
    "}",
  ]


def _arguments(model: Predictor, kind: str) -> str:
  """Returns the columns as arguments, by the names that the model has."""
  # TensorFlow Lite takes no tensors of texts, but arrays.
  ending = ".numpy()" if kind == export_paths.TFLITE else ""
  pairs = [
    f"{argument}=columns[{name!r}]{ending}"
    for name, argument in model.arguments.items()
  ]
  return "\n  " + ",\n  ".join(pairs) + "\n"


def _inputs(model: Predictor, described: Architecture) -> str:
  if model.takes_columns:
    lines = ["| column | values | if missing |", "|---|---|---|"]
    lines += [
      f"| {markdown(name)} | {kind}s | {_MISSING[kind]} |"
      for name, kind in described.columns.items()
    ]
    return "\n".join(["In go raw columns, each a batch of values:", "", *lines])
  number, *sizes = model.x.shape
  shape = ["n" if number is None else number]
  shape += ["any" if size is None else size for size in sizes]
  return (
    f"In goes x, {model.x.dtype.name}[{', '.join(map(str, shape))}]: n "
    "examples, as the task prepared them for training."
  )


def _outputs(model: Predictor, described: Architecture) -> str:
  if described.num_classes is None:
    several = [number for number in model.model.output_shape[1:] if number != 1]
    if several:
      return f"Out come {several[0]:,} numbers for each example."
    return "Out comes a number for each example."
  what = {
    "softmax": "the probabilities of the classes, which add up to 1",
    "sigmoid": "a probability for each label, of which several may be right",
  }.get(described.activation or "softmax")
  sentence = f"Out come {what}: {described.num_classes:,} for each prediction."
  if names := described.class_names:
    sentence += f" {_class_names(names)}"
  if model.decides:
    sentence += (
      f" `{PREDICTED_CLASS}` is the number of the class to decide for, by the "
      "threshold:"
    )
  return sentence


def _class_names(names: Sequence[str]) -> str:
  shown = ", ".join(map(markdown_code, names[:_MOST_CLASS_NAMES]))
  more = len(names) - _MOST_CLASS_NAMES
  rest = f" and {more:,} more" if more > 0 else ""
  return f"The classes are, in this order: {shown}{rest}."
