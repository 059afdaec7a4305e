"""Aggregation factories; `scripts/write_stubs.py` writes this file."""

from typing import Literal, Unpack

from tff_fair.methods.user_method import factory_of as factory_of
from tff_fair.summing import (
  Defence as Defence,
  FactoryOptions,
  RuleFactory as RuleFactory,
  TrimmedSumFactory as TrimmedSumFactory,
  supported_aggregations as supported_aggregations,
)

__all__: list[str]

class FedAvgFactory(RuleFactory):
  """Sums client updates with FedAvg's coefficients."""

  def __init__(
    self,
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory."""

class FedAvgNFactory(RuleFactory):
  """Sums client updates with FedAvg-n's coefficients."""

  def __init__(
    self,
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory."""

class FedNovaFactory(RuleFactory):
  """Sums client updates with FedNova's coefficients.

  Needs the signals effective_steps.
  """

  def __init__(
    self,
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory."""

class QFedAvgFactory(RuleFactory):
  """Sums client updates with q-FedAvg's coefficients.

  Needs the signals loss, learning_rate.
  """

  def __init__(
    self,
    *,
    q: float = 0.1,
    lipschitz: float | None = None,
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory.

    Args:
      q: Emphasis on clients with large losses; 0 recovers the unweighted mean. In
        [0, inf).
      lipschitz: L; larger values make steps shorter. None means 1 / client learning
        rate. In (0, inf).
    """

class AflFactory(RuleFactory):
  """Sums client updates with AFL's coefficients.

  Needs the signals loss.
  """

  def __init__(
    self,
    *,
    num_clients: int,
    lambda_learning_rate: float = 0.1,
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory.

    Args:
      num_clients: N, the size of the population, every client of which the method
        weighs; client ids are 0 to N - 1. In [1, inf).
      lambda_learning_rate: Learning rate of the clients' mixture weights,
        gamma_lambda. In [0, inf).
    """

class TermFactory(RuleFactory):
  """Sums client updates with TERM's coefficients.

  Needs the signals loss.
  """

  def __init__(
    self,
    *,
    t: float = 1.0,
    loss_cap: float | None = None,
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory.

    Args:
      t: Tilt; 0 recovers FedAvg, a large one follows the largest loss, a negative
        one the smallest.
      loss_cap: Losses above it count as it. None means no cap; secure sums need one
        if t is positive.
    """

class DeltaFlFactory(RuleFactory):
  """Sums client updates with Delta-FL's coefficients.

  Needs the signals loss.
  """

  def __init__(
    self,
    *,
    loss_bound: float = 16.0,
    alpha: float = 0.5,
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory.

    Args:
      loss_bound: B: with secure sums, a client with |f_k| > B does not count. In
        (0, inf).
      alpha: Share of the clients, by weight, that the objective covers; 1 recovers
        FedAvg. In (0, 1].
    """

class GiFairFactory(RuleFactory):
  """Sums client updates with GiFair-FL's coefficients.

  Needs the signals loss.
  """

  def __init__(
    self,
    *,
    loss_bound: float = 16.0,
    fraction: float = 0.5,
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory.

    Args:
      loss_bound: B: with secure sums, a client with |f_k| > B does not count. In
        (0, inf).
      fraction: Share of the largest lambda that keeps coefficients non-negative; 0
        recovers FedAvg. In [0, 1).
    """

class FedFaFactory(RuleFactory):
  """Sums client updates with FedFA's coefficients.

  Needs the signals accuracy.
  """

  def __init__(
    self,
    *,
    b: float = 0.5,
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory.

    Args:
      b: Weight of participation; accuracy has the weight 1 - b. In [0, 1].
    """

class FedMgdaPlusFactory(RuleFactory):
  """Sums client updates with FedMGDA+'s coefficients."""

  def __init__(
    self,
    *,
    epsilon: float = 0.1,
    normalize: bool = True,
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory.

    Args:
      epsilon: How far lambda_k may be from p_k. In [0, 1].
      normalize: Whether each update is divided by its norm.
    """

class AdaFedFactory(RuleFactory):
  """Sums client updates with AdaFed's coefficients.

  Needs the signals loss.
  """

  def __init__(
    self,
    *,
    gamma: float = 1.0,
    hull: bool = False,
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory.

    Args:
      gamma: How much steeper the direction is for larger losses. In [0, inf).
      hull: Whether a round whose coefficients would not all be positive takes the
        point of least norm in the convex hull instead.
    """

class VRedFactory(RuleFactory):
  """Sums client updates with VRed's coefficients.

  Needs the signals loss.
  """

  def __init__(
    self,
    *,
    beta: float = 0.1,
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory.

    Args:
      beta: Weight of the variance; 0 recovers FedAvg. In [0, inf).
    """

class SemiVRedFactory(RuleFactory):
  """Sums client updates with Semi-VRed's coefficients.

  Needs the signals loss.
  """

  def __init__(
    self,
    *,
    beta: float = 0.1,
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory.

    Args:
      beta: Weight of the semi-variance; 0 recovers FedAvg. In [0, inf).
    """

class FedFvFactory(RuleFactory):
  """Sums client updates with FedFV's coefficients.

  Needs the signals loss.
  """

  def __init__(
    self,
    *,
    alpha: float = 0.1,
    tau: int = 0,
    order: Literal["loss", "random", "reverse"] = "loss",
    seed: int = 0,
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory.

    Args:
      alpha: Share of the clients, those with the largest losses, whose updates are
        not projected; 1 with tau = 0 is the direction of the mean. In [0, 1].
      tau: Number of rounds for which an update is remembered. In [0, inf).
      order: Order of the projection targets: by ascending loss, at random, or by
        descending loss.
      seed: Seed of the random order; its lowest 64 bits count. In [0, inf).
    """

class DrflFactory(RuleFactory):
  """Sums client updates with DRFL's coefficients.

  Needs the signals loss.
  """

  def __init__(
    self,
    *,
    q: float = 1.0,
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory.

    Args:
      q: Emphasis on clients with large losses; 0 recovers FedAvg. In [0, inf).
    """

class AaggffSFactory(RuleFactory):
  """Sums client updates with AAggFF-S's coefficients.

  Needs the signals loss.
  """

  def __init__(
    self,
    *,
    num_clients: int,
    transform: Literal[
      "weibull", "exponential", "frechet", "gumbel", "logistic", "normal"
    ] = "gumbel",
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory.

    Args:
      num_clients: N, the size of the population, every client of which the method
        weighs; client ids are 0 to N - 1. In [1, inf).
      transform: The distribution whose CDF maps a loss to a response.
    """

class AaggffDFactory(RuleFactory):
  """Sums client updates with AAggFF-D's coefficients.

  Needs the signals loss.
  """

  def __init__(
    self,
    *,
    num_clients: int,
    transform: Literal[
      "weibull", "exponential", "frechet", "gumbel", "logistic", "normal"
    ] = "gumbel",
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory.

    Args:
      num_clients: N, the size of the population, every client of which the method
        weighs; client ids are 0 to N - 1. In [1, inf).
      transform: The distribution whose CDF maps a loss to a response.
    """

class FedMdfgFactory(RuleFactory):
  """Sums client updates with FedMDFG's coefficients.

  Needs the signals loss.
  """

  def __init__(
    self,
    *,
    theta: float = 11.25,
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory.

    Args:
      theta: Angle in degrees between the losses and equal ones, above which the
        direction is guided towards equal losses. In (0, 90).
    """

class MaxFlFactory(RuleFactory):
  """Sums client updates with MaxFL's coefficients.

  Needs the signals loss.
  """

  def __init__(
    self,
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory."""

class FedGiniFactory(RuleFactory):
  """Sums client updates with FedGini's coefficients.

  Needs the signals loss.
  """

  def __init__(
    self,
    *,
    loss_bound: float = 16.0,
    epsilon: float = 0.5,
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory.

    Args:
      loss_bound: B: with secure sums, a client with |f_k| > B does not count. In
        (0, inf).
      epsilon: How equal the weights of clients are; 1 recovers FedAvg with equal
        weights. In [0, 1].
    """

class FairFedFactory(RuleFactory):
  """Sums client updates with FairFed's coefficients."""

  def __init__(
    self,
    *,
    num_clients: int,
    beta: float = 1.0,
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory.

    Args:
      num_clients: N, the size of the population, every client of which the method
        weighs; client ids are 0 to N - 1. In [1, inf).
      beta: How much a deviation of 1 reduces a client's weight; 0 keeps the first
        weights. In [0, inf).
    """

class DrfaFactory(RuleFactory):
  """Sums client updates with DRFA's coefficients."""

  def __init__(
    self,
    *,
    num_clients: int,
    lambda_learning_rate: float = 0.1,
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory.

    Args:
      num_clients: N, the size of the population, every client of which the method
        weighs; client ids are 0 to N - 1. In [1, inf).
      lambda_learning_rate: Learning rate of the clients' mixture weights, gamma. In
        [0, inf).
    """

class UpGradFactory(RuleFactory):
  """Sums client updates with UPGrad's coefficients."""

  def __init__(
    self,
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory."""

class ImtlGFactory(RuleFactory):
  """Sums client updates with IMTL-G's coefficients."""

  def __init__(
    self,
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory."""

class NashMtlFactory(RuleFactory):
  """Sums client updates with Nash-MTL's coefficients."""

  def __init__(
    self,
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory."""

class AlignedMtlFactory(RuleFactory):
  """Sums client updates with Aligned-MTL's coefficients."""

  def __init__(
    self,
    **options: Unpack[FactoryOptions],
  ) -> None:
    """Initializes the factory."""
