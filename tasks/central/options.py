"""Options of tasks whose data lies in one place: how it is cut over clients."""

import dataclasses
from typing import Literal

from tasks import options, partition

Partition = Literal[
  "shards",
  "dirichlet",
  "iid",
  "dirichlet_clients",
  "few_labels",
  "power_law",
  "users",
  "labels",
]
TestData = Literal["published", "local", "pooled"]
_NATURAL = ("users", "labels")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CutOptions(options.TaskOptions):
  """How a data set is cut over clients, and a client into train and test.

  Attributes:
    num_clients: Number of clients. With partition "users", the size of a random
      subset of them; none takes all. With "labels" there are as many as labels.
    partition: "shards" of examples sorted by label, as in McMahan et al.;
      "dirichlet" proportions over clients for each label; "dirichlet_clients",
      proportions over labels for each client, of equal sizes; "few_labels" per
      client at random; "power_law" sizes, labels at random; "iid"; "users", who
      made the examples, where that is known; "labels", a client for each.
    shards_per_client: With "shards": roughly a client's number of labels.
    labels_per_client: With "few_labels": a client's number of labels.
    concentration: With the two of Dirichlet: the smaller, the more skewed.
    min_size: With "dirichlet" and "power_law": least number of examples of a
      client, as far as there are enough.
    exponent: With "power_law": sizes go as rank^-exponent.
    test_data: "published" test data, whose labels are given to the clients in
      the proportions in which they train on them; "local", a share of each
      client's training data, the published test data not being used; "pooled",
      a share of each client's data, cut from all that is published.
    test_fraction: That share, unless the test data is "published".
    unused_fraction: Share that a client neither trains nor is tested on, as
      with papers that keep a validation set.
    split_file: A file (npz) that keeps the split: made if it is not there, used
      if it is.
  """

  num_clients: int | None = 100
  partition: Partition = "shards"
  shards_per_client: int = 2
  labels_per_client: int = 5
  concentration: float = 0.5
  min_size: int = 10
  exponent: float = 1.0
  test_data: TestData = "published"
  test_fraction: float = 0.2
  unused_fraction: float = 0.0
  split_file: str = ""

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.num_clients is None:
      self.require(
        "num_clients",
        self.partition in _NATURAL,
        f"a number unless partition is {' or '.join(_NATURAL)}",
      )
    else:
      self.require("num_clients", self.num_clients >= 1, "at least 1")
    for name in ("shards_per_client", "labels_per_client"):
      self.require(name, getattr(self, name) >= 1, "at least 1")
    least, most = partition.CONCENTRATION_RANGE
    self.require(
      "concentration",
      least <= self.concentration <= most,
      f"between {least:g} and {most:g}",
    )
    for name in ("min_size", "exponent"):
      self.require(name, getattr(self, name) >= 0, "at least 0")
    self.require("test_fraction", 0 < self.test_fraction < 1, "between 0 and 1")
    most_unused = (
      0.0 if self.test_data == "published" else 1 - self.test_fraction
    )
    self.require(
      "unused_fraction",
      self.unused_fraction == 0 or 0 < self.unused_fraction < most_unused,
      "0 with published test data, and otherwise less than 1 - test_fraction",
    )

  def how_cut(self) -> str:
    """Returns the partition in words that follow "clients"."""
    return {
      "shards": f"by label shards ({self.shards_per_client} each)",
      "dirichlet": f"by Dirichlet({self.concentration:g}) over labels",
      "iid": "at random",
      "dirichlet_clients": f"by Dirichlet({self.concentration:g}) per client",
      "few_labels": f"of {self.labels_per_client} labels each",
      "power_law": f"of power-law sizes (exponent {self.exponent:g})",
      "users": "by user",
      "labels": "by label",
    }[self.partition]

  def how_tested(self) -> str:
    """Returns the choice of test data in words."""
    if self.test_data == "published":
      return "published test data, labels as in training"
    unused = (
      f", {self.unused_fraction:g} unused" if self.unused_fraction else ""
    )
    return f"{self.test_data} test share {self.test_fraction:g}{unused}"
