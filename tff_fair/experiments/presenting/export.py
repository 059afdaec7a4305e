"""Exports a run's model with a model card, or its round's TFF computations."""

from __future__ import annotations

import collections
import contextlib
import os
import pathlib
import re
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tff_fair import methods, spelling, types
from tff_fair.declared import FieldError
from tff_fair.experiments import progress
from tff_fair.experiments.analysis import ceiling_records, questions, run_groups
from tff_fair.experiments.analysis.ceiling import Ceilings
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.presenting import (
  card,
  export_paths,
  model_formats,
  rendering,
)
from tff_fair.experiments.runs import (
  configuration,
  discovery,
  summaries,
  trained_model,
)
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.runs.trained_model import Weights
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.files import atomic, csv_cells, parsing

if typing.TYPE_CHECKING:
  import tensorflow_federated as tff


class ExportResult(NamedTuple):
  """The result of an export.

  Attributes:
    path: The path of the model, a file or a folder.
    card: The path of the model card.
    round_num: The round after which the model was saved.
    notes: Sentences on limitations of the exported model.
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
  question: questions.Name | None = None,
  overwrite: bool = False,
  baselines: Sequence[Run | str | os.PathLike[str]] = (),
  trust: bool = False,
) -> ExportResult:
  """Writes the trained model of a run, and its model card.

  The model needs neither this library nor TensorFlow Federated. It takes the
  task's x, or raw columns if the task preprocesses them, and returns class
  probabilities, or predicted numbers. The card shows how to load it.

  Args:
    run: The run, or its folder.
    output: The path to write: a file *.keras in the format keras, a file
      *.tflite in tflite, a folder in savedmodel; with `all_clients`, a folder
      of such models.
    format: "keras", "savedmodel" or "tflite"; by default the one that the name
      of `output` indicates.
    best: Whether to export the model at the best evaluation, which a run with a
      `criterion` keeps, instead of the last model that the run saved.
    client: Name of the client whose personal model to write, if the method
      trains personal models. By default, the global model is written.
    all_clients: Whether to write all personal models into a folder.
    question: The question that the card's intervals answer: "these_clients",
      what other test examples of these clients would show, or "other_clients",
      what other clients like these would show. By default the former if all
      clients take part in each round, and the latter if rounds sample them.
    overwrite: Whether to replace an earlier export.
    baselines: Finished runs on the same data, or their folders, such as FedAvg
      weighted by examples and FedAvg with equal weights; the card compares the
      worst clients' scores with those of the best baseline.
    trust: Whether to run a task's code even if the run has no digest of it, or
      the digest of another version. The task is needed only if the run lacks
      a description of its model, or the names of its clients.

  Returns:
    The paths of the model and its card, and notes.

  Raises:
    FieldError: If an argument does not fit the run, or `output` cannot be
      written; a ValueError.
    RunError: If the run is damaged, or has not saved its model.
    tasks.DataError: If the model depends on the task's data, and these cannot
      be used.
  """
  run, *baseline_runs = map(_open_verified, (run, *baselines))
  output = pathlib.Path(output)
  question_asked = questions.resolve(question, [run])
  if client is not None and all_clients:
    raise FieldError("all_clients", "leave either it or client out.")
  chosen = export_paths.format_of(output, format, of_several=all_clients)
  export_paths.check_free(output, overwrite=overwrite)
  weights = trained_model.load_weights(RunFolder(run.path), best=best)
  _check_baselines(
    run, baseline_runs, is_last_global=not best and weights.personal is None
  )
  if (client is not None or all_clients) and weights.personal is None:
    raise FieldError(
      "all_clients" if client is None else "client",
      f"the run, with {run.algorithm}, trained no personal models; ditto does, "
      "and any method with personal_lam. Leave it out.",
      value=client,
    )
  client_id = None if client is None else _client_id(run, client, trust)
  found = trained_model.find(
    RunFolder(run.path), run.config, lambda: run.spec, trust=trust
  )
  is_personal = client_id is not None or all_clients
  threshold = _threshold(run, weights, is_personal=is_personal)
  with _reporting_bad_description(run):
    writer = model_formats.Writer(found, chosen, threshold)
    writer.predictor.assign(weights.as_list(client_id))
  with export_paths.staging(output, overwrite=overwrite) as staged:
    if all_clients:
      _write_personal_models(run, weights, writer, staged, trust)
    else:
      writer.write(weights.as_list(client_id), staged)
    subject = card.Subject(
      run=run,
      weights=weights,
      architecture=found.architecture,
      predictor=writer.predictor,
      file_name=output.name,
      format=chosen,
      best=best,
      client_id=client_id,
      all_clients=all_clients,
      question=question_asked,
      notes=writer.notes,
      baselines=tuple(baseline_runs),
      ceilings=None if best or is_personal else _ceiling(run),
    )
    with _reporting_bad_description(run):
      text = card.text(subject)
  place = export_paths.card_path(output)
  atomic.write(place, text)
  return ExportResult(output, place, weights.round_num, writer.notes)


def _open_verified(run: Run | str | os.PathLike[str]) -> Run:
  """Returns a run; prints which of its files changed since it ended."""
  found = run if isinstance(run, Run) else discovery.read_run(run)
  discovery.say_changes([found], verify=True, below=False)
  return found


def _ceiling(run: Run) -> Ceilings | None:
  """Returns the ceiling in a run's folder, if valid; else prints the reason."""
  found, notes = ceiling_records.read([run_groups.Group(run.title, (run,))])
  for line in notes:
    progress.say(line)
  return found


def _check_baselines(
  run: Run, baselines: Sequence[Run], *, is_last_global: bool
) -> None:
  if not baselines:
    return
  if not is_last_global:
    raise FieldError(
      "baselines",
      "apply only to the last model of a run without personal models; leave "
      "either them or --best out.",
    )
  for found in (run, *baselines):
    problem = None
    if not found.is_finished:
      problem = "is not finished; start it again"
    elif run_groups.data_key(found) != run_groups.data_key(run):
      problem = f"has other data than {run.path}; leave it out"
    elif found.seeds != run.seeds:
      problem = f"has other seeds than {run.path}; leave it out"
    elif found.score.name != run.score.name:
      problem = f"has another score than {run.path}; leave it out"
    if problem:
      raise FieldError("baselines", f"{found.path} {problem}.")
  titles = [found.title for found in (run, *baselines)]
  for title in titles:
    if titles.count(title) > 1:
      raise FieldError("baselines", f"{title} is given more than once.")


def _threshold(
  run: Run, weights: Weights, *, is_personal: bool
) -> Mapping[str, Any] | None:
  """Returns the decision threshold of the exported model; None without one."""
  # A run chooses a threshold for its models after the last round: for personal
  # models if the method trains any, else for the global model.
  summary = run.summary or {}
  if weights.round_num != summary.get("rounds"):
    return None
  if is_personal != (weights.personal is not None):
    return None
  return summary.get(summaries.THRESHOLD)


@contextlib.contextmanager
def _reporting_bad_description(run: Run) -> Iterator[None]:
  """Turns errors that a model's description file causes into a `RunError`."""
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


def _write_personal_models(
  run: Run,
  weights: Weights,
  writer: model_formats.Writer,
  folder: pathlib.Path,
  trust: bool,
) -> None:
  """Writes all personal models, and an index of their clients."""
  folder.mkdir()
  wanted = weights.personal or {}
  ids = _ids_by_name(run, trust, lambda found: {*found.values()} >= {*wanted})
  names = {client_id: name for name, client_id in ids.items()}
  clients = {client_id: names[client_id] for client_id in wanted}
  file_names = _file_names(clients, export_paths.SUFFIXES[writer.format])
  for client_id, name in file_names.items():
    writer.write(weights.as_list(client_id), folder / name)
  export_paths.write_index(
    folder,
    (
      (client_id, csv_cells.quote(clients[client_id]), name)
      for client_id, name in file_names.items()
    ),
  )


# File names of at most 80 characters that every file system allows.
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")


def _client_id(run: Run, name: str, trust: bool) -> int:
  known = _ids_by_name(run, trust, lambda found: name in found)
  if name not in known:
    asked = spelling.suggest(name, known, "see clients.csv.")
    raise FieldError("client", f"there is no such client; {asked}", value=name)
  return known[name]


def _ids_by_name(
  run: Run, trust: bool, is_enough: Callable[[Mapping[str, int]], bool]
) -> dict[str, int]:
  """Returns client ids by name, from the run if they satisfy `is_enough`.

  Otherwise, loads the task for the names of all clients.
  """
  if run.clients is not None and "client" in run.clients:
    ids = run.clients["client_id"].tolist()
    found = dict(zip(run.clients["client"].astype(str), ids, strict=True))
    if is_enough(found):
      return found
  # Imported here, since it loads TensorFlow Federated.
  from tff_fair.experiments.spec import task_loading  # noqa: PLC0415

  task = task_loading.load(
    configuration.authorize_code(run.config, run.spec, trust=trust)
  )
  return {name: client_id for client_id, name in enumerate(task.client_names)}


def _file_names(clients: Mapping[int, str], suffix: str) -> dict[int, str]:
  """Returns a file name for each client, from its name or else from its id."""
  seen = collections.Counter(map(str.casefold, clients.values()))
  return {
    client_id: (
      f"{name}{suffix}"
      if _FILE_NAME.fullmatch(name) and seen[name.casefold()] == 1
      else f"client {client_id}{suffix}"
    )
    for client_id, name in clients.items()
  }


MAPREDUCE = "mapreduce"
_PARTS = (
  *("prepare", "work", "zero", "accumulate", "merge", "report"),
  *("secure_sum_bitwidth", "secure_sum_max_input"),
  *("secure_modular_sum_modulus", "update"),
)


def export_form(
  run: Run | str | os.PathLike[str],
  output: str | os.PathLike[str],
  *,
  overwrite: bool = False,
  trust: bool = False,
) -> pathlib.Path:
  """Writes a round of a run as the computations of TFF's MapReduceForm.

  Args:
    run: The run, or its folder.
    output: The folder to write.
    overwrite: Whether to replace an earlier export.
    trust: Whether to run unknown or changed code of the task, as in `export`.

  Returns:
    The folder. It has a file for each computation, form.json with a list of the
    computations and their types, and a README.md on how to read them.

  Raises:
    FieldError: If the round has no such form, or `output` cannot be written;
      a ValueError.
    RunError: If the run is damaged.
    tasks.DataError: If the data cannot be used.
  """
  run = _open_verified(run)
  output = pathlib.Path(output)
  export_paths.check_free(output, overwrite=overwrite)
  spec = configuration.authorize_code(
    run.config, run.spec, trust=trust
  ).replace(aggregation=run.flags["aggregation"])
  rule = methods.get(spec.algorithm).build.rule
  compares = spec.aggregation == "secure" and issubclass(
    rule, types.ComparingRule
  )
  if spec.aggregation == "two_phase" or compares:
    raise FieldError(
      "form",
      f"a round of {spec.algorithm} with {spec.aggregation} sums has no such "
      "form: one of its sums depends on another one. Run it with streaming or "
      "stacked sums.",
      value=MAPREDUCE,
    )
  # Imported here, as it takes seconds longer than importing TensorFlow.
  import tensorflow_federated as tff  # noqa: PLC0415

  computations = _computations(spec, trust)
  with export_paths.staging(output, overwrite=overwrite) as staged:
    staged.mkdir()
    for name, computation in computations.items():
      proto = tff.framework.serialize_computation(computation)
      path = staged / f"{name}{export_paths.COMPUTATION}"
      path.write_bytes(proto.SerializeToString(deterministic=True))
    index = {
      "form": "MapReduceForm",
      "tensorflow_federated": tff.__version__,
      "task": spec.task,
      "algorithm": spec.algorithm,
      "aggregation": spec.aggregation,
      "computations": {
        name: {
          "file": f"{name}{export_paths.COMPUTATION}",
          "type": str(computation.type_signature),
        }
        for name, computation in computations.items()
      },
    }
    (staged / export_paths.FORM).write_text(parsing.json_text(index))
    notes = rendering.markdown("form.md", spec=spec, version=tff.__version__)
    (staged / export_paths.FORM_NOTES).write_text(notes)
  return output


def _computations(spec: RunSpec, trust: bool) -> dict[str, tff.Computation]:
  import tensorflow_federated as tff  # noqa: PLC0415

  from tff_fair.experiments.training import build  # noqa: PLC0415

  process = build.process(spec, trust=trust)
  mapreduce = tff.backends.mapreduce
  try:
    form = mapreduce.get_map_reduce_form_for_computation(process.next)
    first = mapreduce.get_state_initialization_computation(process.initialize)
  except (TypeError, ValueError) as error:
    reason = str(error).splitlines()[0]
    raise FieldError(
      "form", f"the round has no such form: {reason}", value=MAPREDUCE
    ) from error
  return {"initialize": first, **{n: getattr(form, n) for n in _PARTS}}
