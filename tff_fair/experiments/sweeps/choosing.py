"""Chooses a method for a task, or shows that FedAvg is as good.

Models train on training rows; the first three stages select settings on
validation rows, and only the fourth stage reads test rows:

1. FedAvg trains with clients weighted by examples and with equal weights, each
   at three learning rates, and at further rates while the best rate is the
   smallest or the largest.
2. Replay: each rule is applied to the tape of a run of the better FedAvg. Rules
   whose direction serves the worst client come first; rules that do not change
   FedAvg's direction come last.
3. Successive halving: all settings train one seed; the better half trains a
   further seed, and so on. FedAvg's settings are halved in the same way.
4. Confirmation: the best settings and FedAvg train fresh seeds, and are
   compared on test rows. A method is recommended if the confidence interval of
   its difference to the better FedAvg, over seeds and clients and corrected for
   the number of methods, shows an improvement.

Runs of these stages share compiled computations (`in_memory`). Each run writes
the results of its clients to a file, so that an interrupted choice can resume.
Only the recommended run has its own folder.
"""

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tff_fair import methods
from tff_fair.declared import FieldError
from tff_fair.experiments.analysis import group_measures
from tff_fair.experiments.analysis.federations import FEDAVG
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.sweeps import choice_runs, stages
from tff_fair.experiments.sweeps.choice_runs import ChoiceRunner
from tff_fair.experiments.sweeps.stages import ChoiceFindings, ChoiceSettings
from tff_fair.files import atomic, parsing

_VALIDATION_FRACTION = 0.2
_REQUEST_FILE, CHOICE_FILE = "request.json", "choice.json"
# Settings that users cannot specify: the choice selects them, or they are
# meaningful only for single runs.
DECIDED_SETTINGS = (
  *("algorithm", "hparams", "client_weighting", "criterion", "patience"),
  *("tape", "tape_rounds", "local_baseline", "save_updates"),
)

# The default methods, those with the most evidence first; replay reorders them.
METHODS = (
  *("fedfv", "adafed", "fedmgda_plus", "semi_vred", "vred", "adafedadam"),
  *("qfedavg", "term", "propfair", "delta_fl", "gifair", "fedmdfg"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice(ChoiceFindings):
  """The result of `choose`; its `spec` trains on all training rows."""

  recommended: Run  # The run of `spec`; if possible, with a local baseline.

  def to_dict(self) -> dict[str, Any]:
    """Returns everything except the run as JSON values."""
    names = ("method", "is_fair_method", "criterion", "num_runs")
    return {
      **{name: getattr(self, name) for name in (*names, "num_fresh_seeds")},
      "settings": dict(self.settings),
      "spec": self.spec.to_dict(),
      **{
        name: getattr(self, name).to_dict("records")
        for name in ("confirmation", "order", "path")
      },
      "left_out": dict(self.left_out),
    }


def choose(
  spec: RunSpec,
  output_dir: str | os.PathLike[str],
  *,
  algorithms: Iterable[str] | None = None,
  progress: bool = True,
  **settings: Any,
) -> Choice:
  """Chooses a method for a task, or shows that FedAvg is as good.

      choice = choose(RunSpec(task="digits", total_rounds=30), "outputs/choice")
      print(choice.method, choice.settings)

  Called again with the same arguments, it resumes an interrupted choice.

  Args:
    spec: The task and all settings that are the same for all methods. Its
      client learning rate is the middle one of the three that FedAvg tries
      first; its algorithm and hyperparameters are ignored.
    output_dir: A folder for all results, `choice.json` among them.
    algorithms: The methods to try besides FedAvg, by name or as FILE.py:NAME;
      by default `METHODS`. Methods that do not support the settings of `spec`,
      such as its `aggregation`, are left out.
    progress: Whether to show progress on stderr.
    **settings: Fields of `ChoiceSettings`.

  Returns:
    The choice, with the steps that led to it.

  Raises:
    FieldError: If an argument is not valid, or `spec` may stop a run early or
      corrects labels.
    RunError: If the folder holds another choice, or a run fails.
  """
  how = ChoiceSettings(**settings)
  names = METHODS if algorithms is None else tuple(algorithms)
  folder = pathlib.Path(output_dir)
  found = run_stages(spec, folder, names, how, progress=progress)
  # `spec` has no validation fraction, so that the model trains on all rows.
  final = spec.with_algorithm(found.spec.algorithm).replace(
    hparams=found.spec.hparams,
    **{name: getattr(found.spec, name) for name in stages.TUNED_SETTINGS},
  )
  with contextlib.suppress(FieldError):  # Some settings rule the baseline out.
    final = final.replace(local_baseline=True)
  recommended = choice_runs.run_once(
    final, folder / "recommended", progress=progress
  )
  of_run = {"spec": recommended.spec, "num_runs": found.num_runs + 1}
  choice = Choice(**{**vars(found), **of_run}, recommended=recommended)
  atomic.write(folder / CHOICE_FILE, parsing.json_text(choice.to_dict()))
  return choice


def run_stages(
  spec: RunSpec,
  folder: pathlib.Path,
  names: Sequence[str],
  settings: ChoiceSettings,
  *,
  progress: bool,
) -> ChoiceFindings:
  """Checks the arguments of `choose`, and runs its four stages.

  `names` lists the methods to try besides FedAvg.
  """
  for name in names:
    if not methods.is_method(methods.canonical_name(name)):
      raise FieldError("algorithms", methods.unknown_message(name), value=name)
  if not names:
    raise FieldError("algorithms", "is empty; name a method, such as fedfv.")
  if spec.criterion is not None:  # `patience` needs a criterion.
    raise FieldError(
      "criterion",
      "does not go with a choice, which compares models after their last "
      "round; leave it and patience out.",
      value=spec.criterion,
    )
  if spec.label_correction != "none":  # Trial runs do not correct labels.
    raise FieldError(
      "label_correction",
      "does not go with a choice; choose a method first, then train it with "
      "label_correction.",
      value=spec.label_correction,
    )
  fraction = spec.validation_fraction or _VALIDATION_FRACTION
  base = spec.with_algorithm(FEDAVG).replace(
    validation_fraction=fraction, data_seed=spec.seeds.data, tape=False
  )
  is_gap = settings.criterion in group_measures.NAMES
  runner = ChoiceRunner(
    folder / "tries", progress=progress, counts_groups=is_gap
  )
  if is_gap and not runner.has_groups(base):
    raise FieldError(
      "criterion",
      "needs groups of people, which the task does not define; name another "
      "criterion, or the task's column of groups.",
      value=settings.criterion,
    )
  request = {
    **dataclasses.asdict(settings),
    "algorithms": {
      name: methods.file_digest(methods.canonical_name(name)) for name in names
    },
    "spec": base.to_dict(),
    "data": runner.data_digests(base),
  }
  _check_request(folder, request)
  return stages.Stages(base, settings, folder, runner).run(names)


def _check_request(folder: pathlib.Path, request: Mapping[str, Any]) -> None:
  """Writes `request` into a new folder; checks that an old folder has it."""
  file = folder / _REQUEST_FILE
  text = parsing.json_text(request)
  if not file.exists():
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
      raise RunError(f"{folder}: is not empty; name another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write(file, text)
  elif file.read_text("utf-8") != text:
    raise RunError(
      f"{folder}: holds the choice of other settings, data or files of yours; "
      "name another folder, or give the same."
    )
