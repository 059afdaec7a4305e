"""Replaces Slurm's commands: a job is a process, and has the process's id.

Like many clusters, this one has no accounting: there is no `sacct`.
"""

import os
import shlex

# Slurm must not requeue a job: it would run beside the job that the sweep then
# submits. A job lasts until its program has handled a signal.
_SBATCH = """
grep -q -e '^#SBATCH --no-requeue$' "$1" || exit 1
job='trap : TERM; export SLURM_JOB_ID=$$; . "$0"'
setsid sh -c "$job" "$1" >/dev/null 2>&1 &
echo $! >> {folder}/jobs
echo "Submitted batch job $!"
"""
_SRUN = """
while true; do
  case $1 in
    --unbuffered) shift ;;
    --*) shift 2 ;;
    *) exec "$@" ;;
  esac
done
"""
# An ended process is a zombie until its parent has waited for it.
_SQUEUE = """
for job in $(cat {folder}/jobs); do
  case $(grep '^State' /proc/$job/status 2>/dev/null) in
    '' | *zombie* | *dead*) ;;
    *) echo "$job|RUNNING" ;;
  esac
done
"""
_SCANCEL = 'kill -TERM "-$1"'


def install(folder, monkeypatch):
  """Puts the commands where programs find them."""
  commands = {
    "sbatch": _SBATCH,
    "srun": _SRUN,
    "squeue": _SQUEUE,
    "scancel": _SCANCEL,
  }
  quoted = shlex.quote(str(folder))
  for name, text in commands.items():
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text.replace('{folder}', quoted)}\n")
    path.chmod(0o755)
  monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
