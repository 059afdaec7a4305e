"""The methods: each a `tff.learning.templates.LearningProcess`."""

from tff_fair.algorithms.adafed import build_adafed
from tff_fair.algorithms.adafedadam import build_adafedadam
from tff_fair.algorithms.afl import build_afl
from tff_fair.algorithms.composition import compose
from tff_fair.algorithms.delta_fl import build_delta_fl
from tff_fair.algorithms.ditto import build_ditto
from tff_fair.algorithms.fedadam import build_fedadam
from tff_fair.algorithms.fedavg import build_fedavg
from tff_fair.algorithms.fedavg_n import build_fedavg_n
from tff_fair.algorithms.fedfa import build_fedfa
from tff_fair.algorithms.fedfv import build_fedfv
from tff_fair.algorithms.fedmgda_plus import build_fedmgda_plus
from tff_fair.algorithms.fednova import build_fednova
from tff_fair.algorithms.fedprox import build_fedprox
from tff_fair.algorithms.gifair import build_gifair
from tff_fair.algorithms.presets import build_fedmgda, build_mgda_prox
from tff_fair.algorithms.propfair import build_propfair
from tff_fair.algorithms.qfedavg import build_qfedavg
from tff_fair.algorithms.registry import Algorithm, build, get, names
from tff_fair.algorithms.semi_vred import build_semi_vred
from tff_fair.algorithms.term import build_term
from tff_fair.algorithms.vred import build_vred

__all__ = [
  "Algorithm",
  "build",
  "build_adafed",
  "build_adafedadam",
  "build_afl",
  "build_delta_fl",
  "build_ditto",
  "build_fedadam",
  "build_fedavg",
  "build_fedavg_n",
  "build_fedfa",
  "build_fedfv",
  "build_fedmgda",
  "build_fedmgda_plus",
  "build_fednova",
  "build_fedprox",
  "build_gifair",
  "build_mgda_prox",
  "build_propfair",
  "build_qfedavg",
  "build_semi_vred",
  "build_term",
  "build_vred",
  "compose",
  "get",
  "names",
]
