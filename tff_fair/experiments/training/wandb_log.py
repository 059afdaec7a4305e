"""Logs runs to Weights & Biases by a callback whose errors do not end a run."""

import contextlib
import uuid
from collections.abc import Callable, Iterator
from typing import SupportsFloat, cast

from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.training import event_files
from tff_fair.experiments.training.callbacks import Writer
from tff_fair.experiments.training.round_state import RoundState
from tff_fair.files import atomic, parsing

# The file that records the id and the project of a run at Weights & Biases.
_RUN_FILE = "run.json"
_ID, _PROJECT = "id", "project"
_INTERRUPTED = 1  # The exit status of a run that can be resumed.


class Wandb(Writer):
  """Logs the numbers of evaluations, with their rounds as steps."""

  def __init__(
    self,
    folder: RunFolder,
    spec: RunSpec,
    project: str,
    say: Callable[[str], None],
  ) -> None:
    self._folder, self._spec, self._project = folder, spec, project
    self._say = say
    self._is_open = True

  def on_start(self, run: Run) -> None:
    """Starts a run at Weights & Biases, or resumes the one started earlier."""
    with self._errors_as_warnings():
      import wandb  # noqa: PLC0415

      self._run = wandb.init(
        project=self._project,
        id=_id(self._folder, self._project),
        name=run.path.resolve().name,
        resume="allow",
        dir=str(run.path),
        config=self._spec.to_dict(),
        settings=wandb.Settings(console="off", silent=True),
      )

  def write(self, state: RoundState) -> None:
    """Logs an evaluation; Weights & Biases ignores rounds already logged."""
    if self._is_open and state.evaluation is not None:
      with self._errors_as_warnings():
        numbers = {
          name: float(cast(SupportsFloat, leaf))
          for name, leaf in event_files.leaves(state.evaluation.summary)
        }
        self._run.log(numbers, step=state.round_num)

  def on_end(self, error: BaseException | None) -> None:
    """Ends the run at Weights & Biases."""
    if self._is_open:
      with self._errors_as_warnings():
        self._run.finish(exit_code=0 if error is None else _INTERRUPTED)

  @contextlib.contextmanager
  def _errors_as_warnings(self) -> Iterator[None]:
    """Turns errors into messages; after the first error, nothing is logged."""
    try:
      yield
    except Exception as error:
      self._is_open = False
      reason = " ".join(str(error).split()) or type(error).__name__
      self._say(f"Weights & Biases: {reason}. The training goes on without it.")


def _id(folder: RunFolder, project: str) -> str:
  """Returns the id of the folder's run in a project; creates one if needed."""
  path = folder.wandb / _RUN_FILE
  if path.exists():
    try:
      noted = parsing.parse_json(path.read_bytes())
      if noted[_PROJECT] == project:
        return str(noted[_ID])
    except (parsing.ParseError, KeyError, TypeError) as error:
      raise RunError(
        f"{path}: does not name the run of Weights & Biases to resume; move it "
        "away to begin another one"
      ) from error
  new = uuid.uuid4().hex
  path.parent.mkdir(exist_ok=True)
  atomic.write(path, parsing.json_text({_PROJECT: project, _ID: new}))
  return new
