"""Chooses a method for a task, or shows that FedAvg is as good.

The program tunes FedAvg, orders the other methods by what they would have done
in FedAvg's rounds, tunes them by successive halving on validation data, and
compares the best two with FedAvg on test data, with fresh seeds. To resume an
interrupted choice, repeat the command.
"""

from binaries import command_line, paths
from binaries.flags import run_flags
from tff_fair import declared
from tff_fair.experiments import interruption
from tff_fair.experiments.presenting import choice_text
from tff_fair.experiments.spec import settings
from tff_fair.experiments.sweeps import choosing
from tff_fair.experiments.sweeps.stages import ChoiceSettings

_FLAGS = command_line.Flags()
_OUTPUT_DIR = _FLAGS.text(
  "output_dir", "outputs/choice", "The folder for all runs and choice.json."
)
_ALGORITHMS = _FLAGS.names(
  "algorithms",
  list(choosing.METHODS),
  "The methods to try besides FedAvg, by name or as FILE.py:NAME.",
)
_CHOICE_FIELDS = declared.fields_of(ChoiceSettings)
for _setting in _CHOICE_FIELDS.values():
  command_line.define(_setting, _FLAGS)
_GROUPS = (
  command_line.Group(
    "Choice: the measure to improve, the methods to try, and the budget.",
    tuple(_FLAGS),
  ),
  *(
    run_flags.define_group(group, _FLAGS, choosing.DECIDED_SETTINGS)
    for group in settings.GROUPS
  ),
)


@interruption.exit_on_signal()
def main() -> None:
  """Makes the choice that the flags describe."""
  folder = paths.parse_optional(_OUTPUT_DIR)
  assert folder is not None  # The flag has a default.
  with paths.prefixing_output_dir():
    choice = choosing.choose(
      run_flags.spec(_FLAGS, choosing.DECIDED_SETTINGS),
      folder,
      algorithms=_ALGORITHMS.value,
      **{name: _FLAGS[name].value for name in _CHOICE_FIELDS},
    )
  print(choice_text.describe(choice))


PROGRAM = command_line.Program(main, str(__doc__), _GROUPS, namespace=_FLAGS)
run = PROGRAM.run  # The console script tff-fair-choose.


if __name__ == "__main__":
  run()
