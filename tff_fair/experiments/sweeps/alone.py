"""The process of one run, which `remote.run` starts and sends the run to.

python -m tff_fair.experiments.sweeps.alone LOG < PICKLED_JOB
"""

import os
import pickle
import signal
import sys
import threading
import time
from typing import NoReturn

from tff_fair.experiments import interruption
from tff_fair.experiments.sweeps import jobs

_STDIN = 0
_SECONDS_UNTIL_SIGNALLED = 0.5


def main() -> NoReturn:
  """Carries out the run that comes through standard input."""
  jobs.write_output_to(pickle.load(sys.stdin.buffer))
  # Slurm sends it to all processes of a job whose time runs out. The one that
  # started this process sees to the end; TensorFlow's worker would die of it.
  signal.signal(signal.SIGUSR2, signal.SIG_IGN)
  job = pickle.load(sys.stdin.buffer)
  threading.Thread(target=_end_with_starter, daemon=True).start()
  sys.exit(jobs.carry_out(job))


def _end_with_starter() -> None:
  while os.read(_STDIN, 1):
    pass
  # A cluster may send signals to all processes of a job at once. The second one
  # would end this one as it saves its rounds.
  time.sleep(_SECONDS_UNTIL_SIGNALLED)
  interruption.ask_to_end()


if __name__ == "__main__":
  main()
