"""Experiments: what a run is, running it, and what came of it.

    spec = RunSpec(task="digits", algorithm="adafed", total_rounds=100)
    runs = sweep(spec.vary(seed=range(5)), "outputs/first", jobs=2)
    print(compare(runs))

TensorFlow is imported when something trains.
"""

import importlib
import typing

from tff_fair.declared import FieldError
from tff_fair.experiments import importing
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs.finding import open_run, open_runs
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec.run_spec import RunSpec

if typing.TYPE_CHECKING:
  from tff_fair.experiments.analysis.compare import compare
  from tff_fair.experiments.analysis.replay import replay
  from tff_fair.experiments.analysis.tidy_table import table
  from tff_fair.experiments.presenting.audit import Audit, audit
  from tff_fair.experiments.presenting.export import export, export_form
  from tff_fair.experiments.presenting.report.page import report
  from tff_fair.experiments.sweeps.runner import sweep
  from tff_fair.experiments.sweeps.search import search
  from tff_fair.experiments.sweeps.setting_tables import Range
  from tff_fair.experiments.training.callbacks import RoundCallback, RoundState
  from tff_fair.experiments.training.running import run
else:
  # Imported when a program first uses one: the libraries below take seconds.
  _MODULES = {
    "Audit": "tff_fair.experiments.presenting.audit",
    "Range": "tff_fair.experiments.sweeps.setting_tables",
    "RoundCallback": "tff_fair.experiments.training.callbacks",
    "RoundState": "tff_fair.experiments.training.callbacks",
    "audit": "tff_fair.experiments.presenting.audit",
    "compare": "tff_fair.experiments.analysis.compare",
    "export": "tff_fair.experiments.presenting.export",
    "export_form": "tff_fair.experiments.presenting.export",
    "replay": "tff_fair.experiments.analysis.replay",
    "report": "tff_fair.experiments.presenting.report.page",
    "run": "tff_fair.experiments.training.running",
    "search": "tff_fair.experiments.sweeps.search",
    "sweep": "tff_fair.experiments.sweeps.runner",
    "table": "tff_fair.experiments.analysis.tidy_table",
  }

  def __getattr__(name: str) -> object:
    """Imports the function or class of that name."""
    if name == "run":
      importing.check_limits()
    if name in _MODULES:
      with importing.quick():
        module = importlib.import_module(_MODULES[name])
      return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
  "Audit",
  "FieldError",
  "Range",
  "RoundCallback",
  "RoundState",
  "Run",
  "RunError",
  "RunSpec",
  "audit",
  "compare",
  "export",
  "export_form",
  "open_run",
  "open_runs",
  "replay",
  "report",
  "run",
  "search",
  "sweep",
  "table",
]


def __dir__() -> list[str]:
  return __all__
