"""The parts of a run, as the run itself makes them."""

from tff_fair.experiments.training import assembly, resolving
from tff_fair.runtime import compilation_cache


def parts_of(spec, cache=compilation_cache.NO_CACHE):
  task = assembly.load_task(spec)
  return assembly.build(spec, task, resolving.resolve(spec, task), cache)
