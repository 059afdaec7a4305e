"""The model card: what others should know about an exported model.

The card is Markdown text after Mitchell et al., "Model Cards for Model
Reporting" (FAT* 2019): what the model is, how to load it, its data, its
training, its results over clients, and what the numbers do not show. It omits
names of clients and of folders, so that it can be shared with the model.
"""

import collections
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

from tff_fair import declared, methods
from tff_fair.experiments.analysis import references, run_groups
from tff_fair.experiments.analysis.ceiling import Ceilings
from tff_fair.experiments.analysis.questions import Question
from tff_fair.experiments.presenting import (
  card_fairness,
  ceiling,
  export_paths,
  rendering,
)
from tff_fair.experiments.presenting.model_formats import Predictor
from tff_fair.experiments.runs import summaries
from tff_fair.experiments.runs.model_files import PREDICTED_CLASS
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.runs.trained_model import Architecture, Weights
from tff_fair.experiments.spec import spec_text
from tff_fair.experiments.texts import fairness_table, run_warnings, sentences

# Settings that the card always shows, since readers look for them.
_SHOWN = (
  *("total_rounds", "clients_per_round", "local_epochs", "batch_size"),
  *("client_optimizer", "client_learning_rate", "seed"),
)
# Settings that the card's table omits, and settings that may be local paths.
_NOT_SHOWN = ("task", "algorithm", "data_dir")
_PATHS = (
  *("model", "initial_model", "initial_run"),
  *(f"{spec_text.TASK_OPTION}{n}" for n in ("file", "loss", "split_file")),
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
  """The subject of a card: a run, its weights, and the exported model."""

  run: Run
  weights: Weights
  architecture: Architecture
  predictor: Predictor
  file_name: str
  format: str
  best: bool
  client_id: int | None  # The client whose personal model is exported.
  all_clients: bool  # Whether all personal models are exported to a folder.
  question: Question
  notes: tuple[str, ...]
  baselines: tuple[Run, ...] = ()  # Finished runs on the same data.
  ceilings: Ceilings | None = None  # The ceiling in the run's folder.

  @property
  def is_personal(self) -> bool:
    """Whether the exported models are personal models of clients."""
    return self.client_id is not None or self.all_clients


def text(subject: Subject) -> str:
  """Returns the model card as Markdown."""
  run, trained = subject.run, subject.predictor.trained
  evaluation = card_fairness.read(
    run,
    subject.weights.round_num,
    of_global=subject.weights.personal is not None and not subject.is_personal,
    client_id=subject.client_id,
  )
  layers = collections.Counter(
    type(layer).__name__ for layer in trained.layers if layer.count_params()
  )
  summary = run.summary or {}
  return rendering.markdown(
    "card.md",
    it=subject,
    run=run,
    spec=run.spec,
    task=pathlib.PurePath(run.task).name,
    personal=subject.weights.personal or {},
    round_num=subject.weights.round_num,
    num_weights=trained.count_params(),
    layers=", ".join(
      f"{number} x {kind}" if number > 1 else kind
      for kind, number in layers.items()
    ),
    usage=usage(
      subject.predictor, subject.architecture, subject.format, _path(subject)
    ),
    threshold=sentences.threshold(summary),
    reference=methods.reference(run.algorithm),
    settings=_settings(run),
    fairness=card_fairness.paragraphs(
      evaluation, subject.weights.round_num, subject.question
    ),
    **_gain(subject),
    ceiling=subject.ceilings and ceiling.sentence(subject.ceilings),
    limits=[
      *card_fairness.limits(evaluation, subject.architecture.num_clients),
      *_limits(subject),
    ],
    has_groups=summaries.GROUPS in summary,
    has_threshold=summaries.THRESHOLD in summary,
    spent=summary.get("privacy"),
    versions=", ".join(
      f"{name} {version}" for name, version in run.config["versions"].items()
    ),
  )


def _gain(subject: Subject) -> dict[str, str]:
  """Returns template values about the worst clients' gain over baselines."""
  run, baselines = subject.run, subject.baselines
  if not baselines:
    return {"gain": ""}
  others = {found.title: found.summary or {} for found in baselines}
  return {
    "gain": fairness_table.compare_worst_clients(run.summary or {}, others),
    "weights": references.weights_note(run_groups.group([run, *baselines])),
  }


def _settings(run: Run) -> Mapping[str, str]:
  found = {name: run.flags[name] for name in _SHOWN}
  if run.spec.local_steps is not None:
    del found["local_epochs"]  # Steps replace epochs.
  rows = {name: declared.as_text(v) for name, v in found.items()}
  rows |= {
    name: _anonymize(name, value)
    for name, value in spec_text.non_default_texts(run.spec).items()
    if name not in (*_SHOWN, *_NOT_SHOWN)
  }
  rows |= {
    f"{spec_text.HPARAM}{name}": declared.as_text(value)
    for name, value in run.spec.all_hparams.items()
  }
  return rows


def _anonymize(name: str, value: str) -> str:
  """Returns a setting's value without client names or the folders of paths."""
  if name == "unseen_clients":
    return ", ".join(map(_without_name, value.split(",")))
  if name == "join_round":
    parts = [part.rpartition(":") for part in value.split(",")]
    return ", ".join(f"{_without_name(who)}:{first}" for who, _, first in parts)
  # Any option of a user's task may be a path.
  if name in _PATHS or value.startswith(("/", "~", "./", "../")):
    return pathlib.PurePath(value).name
  return value


def _without_name(client: str) -> str:
  """Returns `client` if it is a share of the clients, else "a client"."""
  try:
    is_share = 0 < float(client) < 1
  except ValueError:
    is_share = False
  return client if is_share else "a client"


def _limits(subject: Subject) -> list[str]:
  run, summary = subject.run, subject.run.summary or {}
  wrong = run_warnings.of_run(run, subject.weights.round_num)
  remarks = (
    *sentences.majority(summary),
    sentences.joining(summary, run.score),
    *sentences.newcomers(summary, run.score),
    *sentences.groups(summary),
    *wrong,
    None if wrong else sentences.stationarity(summary),
  )
  return [sentence for sentence in remarks if sentence]


_MOST_CLASS_NAMES = 50


def _path(subject: Subject) -> str:
  """Returns the path of the exported model in the card's example code."""
  if not subject.all_clients:
    return subject.file_name
  return f"{subject.file_name}/CLIENT{export_paths.SUFFIXES[subject.format]}"


def usage(
  model: Predictor, described: Architecture, format: str, path: str
) -> str:
  """Returns Markdown text that explains how to load and call a model."""
  shape: Sequence[int | None] = () if model.takes_columns else model.x.shape
  sizes = [
    usual if size is None else size
    for size, usual in zip(shape, [2, *described.x_shape], strict=False)
  ]
  numbers = []
  if described.num_classes is None:
    numbers = [n for n in model.model.output_shape[1:] if n != 1]
  return rendering.markdown(
    "usage.md",
    model=model,
    described=described,
    format=format,
    name=path,
    sizes=sizes,
    shape=", ".join(
      str(size or ("any" if place else "n")) for place, size in enumerate(shape)
    ),
    dtype="" if model.takes_columns else model.x.dtype.name,
    num_outputs=numbers[0] if numbers else 0,
    predicted=PREDICTED_CLASS,
    class_names=(described.class_names or ())[:_MOST_CLASS_NAMES],
    num_more=len(described.class_names or ()) - _MOST_CLASS_NAMES,
  )
