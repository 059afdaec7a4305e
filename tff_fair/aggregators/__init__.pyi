"""Aggregation factories; `scripts/write_stubs.py` writes this file."""

from typing import Literal, Unpack

from tff_fair.summing import Defence as Defence
from tff_fair.summing import FactoryOptions
from tff_fair.summing import RuleFactory as RuleFactory
from tff_fair.summing import TrimmedSumFactory as TrimmedSumFactory
from tff_fair.summing import supported_aggregations as supported_aggregations

__all__: list[str]

class FedAvgFactory(RuleFactory):
  def __init__(
    self,
    **options: Unpack[FactoryOptions],
  ) -> None: ...

class FedAvgNFactory(RuleFactory):
  def __init__(
    self,
    **options: Unpack[FactoryOptions],
  ) -> None: ...

class FedNovaFactory(RuleFactory):
  def __init__(
    self,
    **options: Unpack[FactoryOptions],
  ) -> None: ...

class QFedAvgFactory(RuleFactory):
  def __init__(
    self,
    *,
    q: float = 0.1,
    lipschitz: float | None = None,
    **options: Unpack[FactoryOptions],
  ) -> None: ...

class AflFactory(RuleFactory):
  def __init__(
    self,
    *,
    num_clients: int,
    lambda_learning_rate: float = 0.1,
    **options: Unpack[FactoryOptions],
  ) -> None: ...

class TermFactory(RuleFactory):
  def __init__(
    self,
    *,
    t: float = 1.0,
    loss_cap: float | None = None,
    **options: Unpack[FactoryOptions],
  ) -> None: ...

class DeltaFlFactory(RuleFactory):
  def __init__(
    self,
    *,
    alpha: float = 0.5,
    **options: Unpack[FactoryOptions],
  ) -> None: ...

class GiFairFactory(RuleFactory):
  def __init__(
    self,
    *,
    fraction: float = 0.5,
    **options: Unpack[FactoryOptions],
  ) -> None: ...

class FedFaFactory(RuleFactory):
  def __init__(
    self,
    *,
    b: float = 0.5,
    **options: Unpack[FactoryOptions],
  ) -> None: ...

class FedMgdaPlusFactory(RuleFactory):
  def __init__(
    self,
    *,
    epsilon: float = 0.1,
    normalize: bool = True,
    **options: Unpack[FactoryOptions],
  ) -> None: ...

class AdaFedFactory(RuleFactory):
  def __init__(
    self,
    *,
    gamma: float = 1.0,
    **options: Unpack[FactoryOptions],
  ) -> None: ...

class VRedFactory(RuleFactory):
  def __init__(
    self,
    *,
    beta: float = 0.1,
    **options: Unpack[FactoryOptions],
  ) -> None: ...

class SemiVRedFactory(RuleFactory):
  def __init__(
    self,
    *,
    beta: float = 0.1,
    **options: Unpack[FactoryOptions],
  ) -> None: ...

class FedFvFactory(RuleFactory):
  def __init__(
    self,
    *,
    alpha: float = 0.1,
    tau: int = 0,
    order: Literal["loss", "random", "reverse"] = "loss",
    seed: int = 0,
    **options: Unpack[FactoryOptions],
  ) -> None: ...

class DrflFactory(RuleFactory):
  def __init__(
    self,
    *,
    q: float = 1.0,
    **options: Unpack[FactoryOptions],
  ) -> None: ...

class AaggffSFactory(RuleFactory):
  def __init__(
    self,
    *,
    num_clients: int,
    transform: Literal[
      "weibull", "exponential", "frechet", "gumbel", "logistic", "normal"
    ] = "gumbel",
    **options: Unpack[FactoryOptions],
  ) -> None: ...

class AaggffDFactory(RuleFactory):
  def __init__(
    self,
    *,
    num_clients: int,
    transform: Literal[
      "weibull", "exponential", "frechet", "gumbel", "logistic", "normal"
    ] = "gumbel",
    **options: Unpack[FactoryOptions],
  ) -> None: ...

class FedMdfgFactory(RuleFactory):
  def __init__(
    self,
    *,
    theta: float = 11.25,
    **options: Unpack[FactoryOptions],
  ) -> None: ...
