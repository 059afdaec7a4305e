"""A run's evaluations in a project of Weights & Biases.

The run has the same training without it: no error of Weights & Biases ends or
changes a run. WANDB_MODE=offline keeps all on this machine.
"""

import contextlib
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import SupportsFloat, cast

import tensorflow_federated as tff

from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.training import event_files
from tff_fair.files import atomic, parsing

# Says in the folder of a run which run of Weights & Biases is the same.
_SAME_RUN = "run.json"
_ID, _PROJECT = "id", "project"
_INTERRUPTED = 1  # The exit status of a run that is to go on.


class WandbReleaseManager(tff.program.ReleaseManager):
  """Logs the numbers of evaluations, with their rounds as steps."""

  def __init__(
    self,
    folder: RunFolder,
    spec: RunSpec,
    project: str,
    say: Callable[[str], None],
  ) -> None:
    """Begins a run of Weights & Biases, or goes on with that of the folder."""
    self._say = say
    self._is_open = True
    with self._warning():
      import wandb  # noqa: PLC0415

      self._run = wandb.init(
        project=project,
        id=_id(folder, project),
        name=folder.path.resolve().name,
        resume="allow",
        dir=str(folder.path),
        config=spec.to_dict(),
        settings=wandb.Settings(console="off", silent=True),
      )

  async def release(self, value: Mapping[str, object], key: int) -> None:
    """Logs the numbers of `value`, which may be nested, under the round `key`.

    Weights & Biases leaves out a round that it has already.
    """
    if self._is_open:
      with self._warning():
        numbers = {
          name: float(cast(SupportsFloat, leaf))
          for name, leaf in event_files.leaves(value)
        }
        self._run.log(numbers, step=key)

  def close(self, *, is_complete: bool) -> None:
    """Ends the run of Weights & Biases."""
    if self._is_open:
      with self._warning():
        self._run.finish(exit_code=0 if is_complete else _INTERRUPTED)

  @contextlib.contextmanager
  def _warning(self) -> Iterator[None]:
    """Turns an error into a line; after it, nothing is logged any more."""
    try:
      yield
    except Exception as error:
      self._is_open = False
      reason = " ".join(str(error).split()) or type(error).__name__
      self._say(f"Weights & Biases: {reason}. The training goes on without it.")


@contextlib.contextmanager
def logging_to(
  project: str | None,
  folder: RunFolder,
  spec: RunSpec,
  say: Callable[[str], None],
) -> Iterator[list[tff.program.ReleaseManager]]:
  """Yields where evaluations are to go besides: nowhere without a project."""
  if project is None:
    yield []
    return
  manager = WandbReleaseManager(folder, spec, project, say)
  is_complete = False
  try:
    yield [manager]
    is_complete = True
  finally:
    manager.close(is_complete=is_complete)


def _id(folder: RunFolder, project: str) -> str:
  """Returns the id of the folder's run in a project; a new one is noted."""
  path = folder.wandb / _SAME_RUN
  if path.exists():
    try:
      noted = parsing.parse_json(path.read_bytes())
      if noted[_PROJECT] == project:
        return str(noted[_ID])
    except (parsing.ParseError, KeyError, TypeError) as error:
      raise RunError(
        f"{path}: does not say which run of Weights & Biases goes on; move it "
        "away to begin another one"
      ) from error
  new = uuid.uuid4().hex
  path.parent.mkdir(exist_ok=True)
  atomic.write(path, parsing.json_text({_PROJECT: project, _ID: new}))
  return new
