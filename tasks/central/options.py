"""Options of tasks whose data lies in one place: how it is cut over clients."""

import dataclasses
from typing import Literal

from tasks import cuts, options

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
    num_clients: Number of clients. With partition "users", the number of users
      chosen at random; none takes all. With "labels" there is a client for each
      label.
    partition: How the examples come to the clients. "shards": each client gets
      shards of the examples sorted by label, as in McMahan et al. "dirichlet":
      each label spreads over the clients in Dirichlet proportions.
      "dirichlet_clients": clients of equal size have Dirichlet proportions of
      labels. "few_labels": each client has some labels, chosen at random.
      "power_law": sizes follow a power law, labels are random. "iid": equal
      sizes, at random. "users": a client is who made the examples, where the
      data says so. "labels": a client is a label.
    shards_per_client: With partition "shards": number of shards of a client,
      roughly its number of labels.
    labels_per_client: With partition "few_labels": number of labels of a
      client.
    concentration: With partition "dirichlet" or "dirichlet_clients": parameter
      of the Dirichlet distribution; the smaller, the more the clients differ.
    min_size: With partition "dirichlet" or "power_law": least number of
      examples of a client, as far as there are enough. Other clients give them,
      and the description says which share of all; 1 gives some only to clients
      without any, 0 to none.
    exponent: With partition "power_law": the client of rank r has a size in
      proportion to r^-exponent.
    test_data: The data that clients are tested on. "published": the published
      test data, in the proportions of labels that each client trains on.
      "local": a share of each client's training data; the published test data
      stays unused. "pooled": clients get training and published test data
      alike, and a share of each client's data is for testing.
    test_fraction: With test_data "local" or "pooled": the share of a client's
      examples that is for testing.
    unused_fraction: With test_data "local" or "pooled": the share of a client's
      examples that is for neither training nor testing, where a paper keeps a
      validation set.
    split_file: A file (npz) of the split. If there is one, the task reads its
      split from it; if not, the task makes it. A file of your own has the array
      `client`, whose example each one is, and perhaps `split`. Empty for no
      file.
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
    self.require_at_least(
      1, "num_clients", "shards_per_client", "labels_per_client"
    )
    self.require_at_least(0, "min_size", "exponent")
    least, most = cuts.CONCENTRATION_RANGE
    self.require(
      "concentration",
      least <= self.concentration <= most,
      f"between {least:g} and {most:g}",
    )
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
