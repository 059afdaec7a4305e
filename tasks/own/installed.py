"""Tasks that installed packages add: entry points of the group tff_fair.tasks.

[project.entry-points."tff_fair.tasks"]
hospitals = "my_package.my_module:hospitals"
"""

import functools
import importlib.metadata
from collections.abc import Collection, Mapping

from tasks import notices

GROUP = "tff_fair.tasks"


def functions(taken: Collection[str]) -> Mapping[str, str]:
  """Returns the functions of tasks of installed packages, by their names.

  Args:
    taken: Names that packages cannot have; of one that tries there is a notice.
  """
  return _functions(tuple(taken))


@functools.cache
def _functions(taken: tuple[str, ...]) -> Mapping[str, str]:
  found: dict[str, str] = {}
  points = importlib.metadata.entry_points(group=GROUP)
  for point in sorted(points, key=lambda point: (point.name, point.value)):
    package = point.dist.name if point.dist is not None else point.value
    if point.name in taken or point.name in found:
      whose = "of tff_fair" if point.name in taken else "of another package"
      notices.notify(
        f"the task {point.name} of the package {package} cannot be used: the "
        f"name is that of a task {whose}; {point.value} names it, too."
      )
      continue
    found[point.name] = point.value
  return found
