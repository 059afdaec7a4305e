"""Reads a run: its settings and tables, without TensorFlow."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import pathlib
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tasks.formats import source_files
from tff_fair import declared, methods
from tff_fair.declared import Value
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import configuration, tables
from tff_fair.experiments.runs.diagnosis import Diagnosis, diagnose
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.spec import seeds
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.spec.scores import Score
from tff_fair.experiments.spec.settings import federation
from tff_fair.experiments.spec.spec_text import HPARAM, TASK_OPTION
from tff_fair.files import parsing

if typing.TYPE_CHECKING:
  import pandas as pd
  import tensorflow as tf

ROUND = tables.ROUND  # The first column of the tables of rounds.

# Columns with the numbers of clients that reported back but were excluded.
_EXCLUDED = [
  "aggregator/num_clients_excluded",
  "aggregator/num_clients_out_of_bounds",
]
# Settings that `Run.settings` omits: seeds, settings without effect on results,
# and mappings, whose entries it has by flat name. `decides` differs in two: a
# resumed run must keep `measure_improvement`, as its tables have the columns;
# it may change `threshold_for`, which changes gaps of groups.
_NO_SETTINGS = (
  *("hparams", "task_options", *seeds.NAMES),
  *("rounds_per_checkpoint", "measure_improvement", "save_updates"),
  *("local_baseline", "pooled_baseline"),
  *("finetune_epochs", "finetune_learning_rate"),
)
# Errors that settings of wrong types raise.
_WRONG_TYPES = (AttributeError, KeyError, OverflowError, TypeError, ValueError)


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
  """A run in its folder, finished or not.

  Attributes:
    path: The folder of the run.
    config: The configuration: groups of values by name.
    summary: The results at the end; None if the run is not finished.
    name: The method's name in a sweep, by default the name of its algorithm.
  """

  path: pathlib.Path
  config: Mapping[str, Any]
  summary: Mapping[str, Any] | None
  name: str

  @property
  def is_finished(self) -> bool:
    """Whether the run has ended and written its summary."""
    return self.summary is not None

  @property
  def is_pruned(self) -> bool:
    """Whether a search ended the run early, because it was not promising."""
    return RunFolder(self.path).is_pruned

  @property
  def algorithm(self) -> str:
    """The name of the method's algorithm."""
    return str(self.flags["algorithm"])

  @property
  def title(self) -> str:
    """The title of the method in tables, pages and cards."""
    return methods.title(
      self.algorithm,
      str(self.flags["client_weighting"]),
      shown=None if self.name == self.algorithm else self.name,
    )

  @property
  def client_weights(self) -> str:
    """How the method weights clients, as a value of `client_weighting`.

    It is "uniform" for methods that do not use client weights.
    """
    method = methods.METHODS.get(self.algorithm)  # None for a user's method.
    if method is not None and not method.weighs_clients:
      return "uniform"
    return str(self.flags["client_weighting"])

  @property
  def task(self) -> str:
    """The name of the task."""
    return str(self.flags["task"])

  @property
  def seed(self) -> int:
    """The seed of all draws that do not have a separate seed."""
    return self.seeds.draws

  @property
  def seeds(self) -> seeds.Seeds:
    """The seeds of the run; repetitions of a run differ only in their seeds."""
    return seeds.from_settings(self.flags)

  @property
  def score(self) -> Score:
    """The score by which the clients are compared, such as accuracy."""
    return configuration.score(self.config)

  @functools.cached_property
  def spec(self) -> RunSpec:
    """The settings of the run, as requested.

    Raises:
      RunError: If a setting of the run is not valid.
    """
    with self._reading_settings():
      return configuration.read_spec(self.config)

  @property
  def flags(self) -> Mapping[str, Any]:
    """All settings, with the values that follow from task and method."""
    return typing.cast(Mapping[str, Any], self.config[configuration.RESOLVED])

  @functools.cached_property
  def task_options(self) -> Mapping[str, str]:
    """The task's options as strings, for example about its data and model."""
    options = self.flags["task_options"]
    return {name: declared.as_text(value) for name, value in options.items()}

  @functools.cached_property
  def settings(self) -> Mapping[str, object]:
    """All settings that affect the results, except the seeds, by flat name.

    Hyperparameters have names such as "hparam.NAME", options of the task
    "task_option.NAME". Settings without a value are left out.
    """
    # `clients_per_part` has no effect unless it is below the cohort's size.
    part = federation.part_size(
      self.flags[configuration.PART], self.flags["clients_per_round"]
    )
    found: dict[str, object] = {
      **{
        name: value
        for name, value in {**self.flags, configuration.PART: part}.items()
        if name not in _NO_SETTINGS and value not in (None, False, [])
      },
      **{f"{TASK_OPTION}{n}": value for n, value in self.task_options.items()},
      **{
        f"{HPARAM}{name}": value
        for name, value in self.flags["hparams"].items()
        if value is not None
      },
      # Runs with different versions of a user's file are not repetitions.
      **configuration.short_digests(
        self.config.get(configuration.OWN_FILES, {})
      ),
    }
    # Without a data folder, the data are bundled or generated, so the settings
    # determine them.
    data = self.config.get(configuration.DATA_DIGESTS, {})
    if configuration.DATA_FOLDER in self.config[configuration.COMMAND]:
      digest = source_files.combine(data)
      found["data"] = digest[: configuration.LETTERS_OF_DIGEST]
    # Initial weights from a user's code may depend on the seed, and that code's
    # digest is already in `found`. Weights from a file or a run do not depend
    # on the seed, and need a digest here.
    group = self.config.get(configuration.INITIAL_WEIGHTS, {})
    if group and (self.flags["initial_model"] or self.flags["initial_run"]):
      digest = str(group.get(configuration.SHA256))
      found[configuration.INITIAL_WEIGHTS] = digest[
        : configuration.LETTERS_OF_DIGEST
      ]
    return found

  def differences(self, spec: RunSpec) -> dict[str, tuple[Value, Value]]:
    """Returns the settings that affect results and differ in another run.

    Args:
      spec: The settings of the other run, which may not have started yet.

    Returns:
      This run's value and the other's, by flat name as in
      `RunSpec.differences`.

    Raises:
      RunError: If a setting of this run is not valid.
    """
    with self._reading_settings():
      return configuration.differences_from_spec(self.config, spec)

  def weights(self, *, best: bool = False) -> list[np.ndarray]:
    """Returns the weights of the trained model; imports TensorFlow.

    Args:
      best: Whether to return the weights at the best evaluation, which a run
        with a `criterion` saves, instead of the last saved weights.

    Returns:
      Arrays in the order of `tf.keras.Model.weights`: the trainable weights,
      then the non-trainable ones.

    Raises:
      RunError: If the run has not saved these weights.
    """
    from tff_fair.experiments.runs import trained_model  # noqa: PLC0415

    return trained_model.load_weights(RunFolder(self.path), best=best).as_list()

  def model(self, *, best: bool = False, trust: bool = False) -> tf.keras.Model:
    """Returns the trained global model; imports TensorFlow.

    Args:
      best: As for `weights`.
      trust: As for `tff_fair.experiments.export`.

    Returns:
      A Keras model from x of the task's `element_spec` to the outputs that the
      task's loss takes. It consists of Keras' own layers, unless the task's
      model has layers without a counterpart in Keras. If clients have personal
      models, the result is the global model. `tff_fair.experiments.export`
      writes models that return probabilities, and personal models.

    Raises:
      RunError: If the run has not saved its weights.
      tasks.DataError: If the model has a user's layers, so that the task must
        be loaded, and the task's data cannot be used.
    """
    from tff_fair.experiments.runs import trained_model  # noqa: PLC0415

    values, folder = self.weights(best=best), RunFolder(self.path)
    found = trained_model.find(
      folder, self.config, lambda: self.spec, trust=trust
    )
    model = found.build()
    trained_model.assign(model, values)
    return model

  @functools.cached_property
  def evaluations(self) -> pd.DataFrame:
    """One row per evaluation: round, accuracy/mean, ..., loss/mean, ...

    For another score, such as auc, the columns are auc/mean, ... instead.
    """
    kind = tables.evaluations(self.score)
    table = self._read_round_table(kind)
    last = (self.summary or {}).get("rounds")
    if last is not None and table[ROUND].max() != last:
      raise RunError(
        f"{self.path / kind.name}: ends with round {table[ROUND].max()}, and "
        f"{RunFolder(self.path).summary.name} says {last}. Put the file back "
        "as it was."
      )
    return table

  @functools.cached_property
  def client_evaluations(self) -> pd.DataFrame:
    """One row per evaluation and client: round, client_id, accuracy, ...

    Each score has its own column, with NaN for clients without the score.
    """
    kind = tables.client_evaluations(self.score)
    known = self.evaluations[ROUND]  # Read before the clients' table.
    table = self._read_round_table(kind)
    tables.check_results(self.path / kind.name, table, self.score)
    # Leave out an evaluation that the run has begun to write since then.
    table = table[table[ROUND].isin(known)]
    self._check_number_of_clients(table[ROUND])
    return table

  @property
  def last_evaluation(self) -> pd.DataFrame:
    """The rows of `client_evaluations` for the last evaluated round."""
    table = self.client_evaluations
    return table[table[ROUND] == table[ROUND].max()]

  def of_summary(self, key: str) -> Mapping[str, Any]:
    """Returns the summary's entry `key`; an empty mapping if it is missing."""
    found: Mapping[str, Any] = (self.summary or {}).get(key, {})
    return found

  @functools.cached_property
  def rounds(self) -> pd.DataFrame:
    """One row per round: the metrics that the method reports."""
    return self._read_round_table(tables.METRICS)

  @functools.cached_property
  def timing(self) -> pd.DataFrame:
    """One row per round: round_seconds, evaluation_seconds."""
    return self._read_round_table(tables.TIMING)

  @functools.cached_property
  def costs(self) -> pd.DataFrame | None:
    """One row per round: bytes_down, bytes_up, ...; None until round 1 ends."""
    return self._read(tables.COSTS)

  @functools.cached_property
  def cohorts(self) -> pd.DataFrame | None:
    """One row per round and client of its cohort; None until round 1 ends."""
    return self._read(tables.COHORTS)

  @property
  def num_idle_rounds(self) -> int:
    """The number of rounds at the end in which all clients were excluded.

    It is 0 if all cohorts of these rounds were empty, as random cohorts may be.
    """
    counts = self.rounds.get("aggregator/num_clients")
    if counts is None:
      return 0
    idle = int((counts[::-1] == 0).cumprod().sum())
    excluded = self.rounds.tail(idle).reindex(columns=_EXCLUDED).sum().sum()
    return idle if excluded > 0 else 0

  @functools.cached_property
  def diagnosis(self) -> list[Diagnosis]:
    """Faults at the end of the run, or at its last evaluation so far."""
    return self.diagnose()

  def diagnose(self, last: int | None = None) -> list[Diagnosis]:
    """Returns the faults in the run's evaluations up to round `last`.

    Args:
      last: The round of an evaluation; by default, the last evaluated round.
    """
    table = self.evaluations
    return diagnose(
      table if last is None else table[table[ROUND] <= last],
      self.score,
      self.config[configuration.DATA].get(configuration.ENTROPY_CLASSES),
    )

  @functools.cached_property
  def labels(self) -> pd.DataFrame | None:
    """One row per client: its number of training examples of each class."""
    return self._read(tables.LABELS)

  @functools.cached_property
  def replays(self) -> pd.DataFrame | None:
    """One row per rule, round and client; None if nothing was replayed."""
    return self._read(tables.REPLAY)

  @functools.cached_property
  def clients(self) -> pd.DataFrame | None:
    """One row per client at the end of the run; None before the end."""
    table = self._read(tables.CLIENTS)
    if table is not None:
      tables.check_results(self.path / tables.CLIENTS.name, table, self.score)
    return table

  @property
  def client_names(self) -> pd.Series[str]:
    """Names of the clients by their ids; the ids if clients have no names."""
    if self.clients is not None and "client" in self.clients:
      return self.clients.set_index("client_id")["client"].astype(str)
    import pandas as pd  # noqa: PLC0415

    ids = np.unique(self.client_evaluations["client_id"])
    return pd.Series(ids.astype(str), ids)

  @property
  def class_names(self) -> Sequence[str]:
    """Names of the classes; empty if the task does not define names."""
    model = RunFolder(self.path).model
    with contextlib.suppress(OSError, parsing.ParseError):
      content = parsing.parse_json(model.read_text("utf-8", "replace"))
      names = content.get("class_names") if isinstance(content, dict) else None
      if isinstance(names, list):
        return tuple(map(str, names))
    return ()

  @contextlib.contextmanager
  def _reading_settings(self) -> Iterator[None]:
    try:
      yield
    except _WRONG_TYPES as error:
      place = self.config[configuration.COMMAND].get(configuration.DIRECTORY)
      raise RunError(
        f"{RunFolder(self.path).config}: cannot read its settings: "
        f"{error}" + (f" The run was started in {place}." if place else "")
      ) from error

  def _read_round_table(self, kind: tables.Kind) -> pd.DataFrame:
    if self.is_finished:
      return tables.read_required(self.path, kind)
    table = self._read(kind)
    if table is not None:
      return table
    import pandas as pd  # noqa: PLC0415

    return pd.DataFrame({name: [] for name in kind.columns})

  def _read(self, kind: tables.Kind) -> pd.DataFrame | None:
    return tables.read(self.path, kind, is_finished=self.is_finished)

  def _check_number_of_clients(self, rounds: pd.Series[int]) -> None:
    """Checks that evaluations have clients; in a finished run, equally many."""
    found = rounds.value_counts().reindex(self.evaluations[ROUND], fill_value=0)
    if (found == 0).any() or (self.is_finished and found.nunique() > 1):
      raise RunError(
        f"{self.path / tables.client_evaluations(self.score).name}: has rows "
        f"of {found.min()} clients in round {found.idxmin()}, and of "
        f"{found.max()} in round {found.idxmax()}."
      )
