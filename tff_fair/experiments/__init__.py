"""Specifies and trains runs, and compares, reports and exports their results.

    spec = RunSpec(task="digits", algorithm="adafed", total_rounds=100)
    runs = sweep(spec.vary(seed=range(5)), "outputs/first", jobs=2)
    print(compare(runs))

TensorFlow is imported only when a call needs it, such as one that trains.
"""

import typing

from tff_fair import lazy
from tff_fair.declared import FieldError as FieldError
from tff_fair.experiments import startup
from tff_fair.experiments.errors import RunError as RunError
from tff_fair.experiments.runs.discovery import (
  open_run as open_run,
  open_runs as open_runs,
)
from tff_fair.experiments.runs.run import Run as Run
from tff_fair.experiments.spec.run_spec import RunSpec as RunSpec

if typing.TYPE_CHECKING:
  from tff_fair.experiments.analysis.ceiling import (
    Ceilings as Ceilings,
    ceiling as ceiling,
  )
  from tff_fair.experiments.analysis.compare import compare as compare
  from tff_fair.experiments.analysis.replay import replay as replay
  from tff_fair.experiments.analysis.tidy_table import table as table
  from tff_fair.experiments.presenting.audit import (
    Audit as Audit,
    audit as audit,
  )
  from tff_fair.experiments.presenting.export import (
    export as export,
    export_form as export_form,
  )
  from tff_fair.experiments.presenting.report.page import report as report
  from tff_fair.experiments.sweeps.choosing import (
    Choice as Choice,
    choose as choose,
  )
  from tff_fair.experiments.sweeps.runner import sweep as sweep
  from tff_fair.experiments.sweeps.search import search as search
  from tff_fair.experiments.sweeps.setting_tables import Range as Range
  from tff_fair.experiments.training.callbacks import (
    RoundCallback as RoundCallback,
  )
  from tff_fair.experiments.training.execution import run as run
  from tff_fair.experiments.training.round_state import RoundState as RoundState


_find, __dir__, __all__ = lazy.attach(__name__, __file__)


def __getattr__(name: str) -> object:
  """Returns a public object; first imports its module, which may be slow."""
  if name == "run":
    startup.check_limits()
  with startup.fast_import():
    return _find(name)
