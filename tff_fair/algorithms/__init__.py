"""The methods: each a `tff.learning.templates.LearningProcess`."""

from tff_fair.algorithms.adafed import build_adafed
from tff_fair.algorithms.composition import compose
from tff_fair.algorithms.fedavg import build_fedavg
from tff_fair.algorithms.fedavg_n import build_fedavg_n
from tff_fair.algorithms.fedmgda_plus import build_fedmgda_plus
from tff_fair.algorithms.qfedavg import build_qfedavg
from tff_fair.algorithms.registry import Algorithm, build, get, names
from tff_fair.algorithms.semi_vred import build_semi_vred
from tff_fair.algorithms.term import build_term
from tff_fair.algorithms.vred import build_vred

__all__ = [
  "Algorithm",
  "build",
  "build_adafed",
  "build_fedavg",
  "build_fedavg_n",
  "build_fedmgda_plus",
  "build_qfedavg",
  "build_semi_vred",
  "build_term",
  "build_vred",
  "compose",
  "get",
  "names",
]
