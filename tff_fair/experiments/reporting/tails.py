"""How many clients a tail is, such as the worst 10 %."""

from tff_fair.experiments.reporting import final_scores
from tff_fair.experiments.reporting.methods import TaskRuns
from tff_fair.metrics.statistics import tail_size


def clients(task: TaskRuns, percent: int) -> str:
  """Returns how many clients a tail is, as "2 of 20 clients".

  Args:
    task: The task, with the runs; their numbers of clients may differ.
    percent: Share of the clients.

  Returns:
    The words; empty if no run has evaluated a client.
  """
  counts = {final_scores.of_run(run).size for run in task.runs} - {0}
  if not counts:
    return ""
  if len(counts) > 1:
    sizes = [tail_size(percent, count) for count in counts]
    return f"{min(sizes):,} to {max(sizes):,} clients"
  (count,) = counts
  return f"{tail_size(percent, count):,} of {count:,} clients"
