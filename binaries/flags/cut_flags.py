"""Conversion: clients, train and test."""

from typing import Any

from absl import flags

from binaries.flags.data_flags import NAMESPACE
from tasks.conversions.request import PARTITIONS, SPLITS, ConversionRequest

_SPLIT = flags.DEFINE_enum(
  "split",
  None,
  SPLITS,
  "How train and test are told apart. source: as published; date: posts from "
  "--test_date on are test; random: a random share of each client; order: the "
  "last share of each client. By default the first that the source allows.",
  flag_values=NAMESPACE,
)
_TEST_FRACTION = flags.DEFINE_float(
  "test_fraction",
  ConversionRequest.test_fraction,
  "Share of each client's examples that is test data, where --split is random "
  "or order; both halves get one at least.",
  flag_values=NAMESPACE,
)
_TEST_DATE = flags.DEFINE_string(
  "test_date",
  ConversionRequest.test_date,
  "First day (UTC) of the test data, where --split is date.",
  flag_values=NAMESPACE,
)
_HELDOUT_EVERY = flags.DEFINE_integer(
  "heldout_every",
  ConversionRequest.heldout_every,
  "Posts whose author's id this divides go to the split `heldout`, as TFF has "
  "it.",
  lower_bound=2,
  flag_values=NAMESPACE,
)
_MIN_EXAMPLES = flags.DEFINE_integer(
  "min_examples",
  ConversionRequest.min_examples,
  "Clients with fewer examples are dropped.",
  lower_bound=1,
  flag_values=NAMESPACE,
)
_SEED = flags.DEFINE_integer(
  "seed",
  ConversionRequest.seed,
  "Seed of the random share, and of the made-up clients.",
  lower_bound=0,
  flag_values=NAMESPACE,
)
_NUM_CLIENTS = flags.DEFINE_integer(
  "num_clients",
  None,
  "Number of clients to make up, where the source has none or in their place: "
  "cifar, images, mnist.",
  lower_bound=1,
  flag_values=NAMESPACE,
)
_PARTITION = flags.DEFINE_enum(
  "partition",
  ConversionRequest.partition,
  PARTITIONS,
  "How made-up clients get their labels: dirichlet, iid or shards.",
  flag_values=NAMESPACE,
)
_CONCENTRATION = flags.DEFINE_float(
  "concentration",
  ConversionRequest.concentration,
  "Concentration of the Dirichlet distribution; the smaller, the fewer labels "
  "a client has.",
  flag_values=NAMESPACE,
)
_SHARDS_PER_CLIENT = flags.DEFINE_integer(
  "shards_per_client",
  ConversionRequest.shards_per_client,
  "Number of shards of each client, where --partition is shards.",
  lower_bound=1,
  flag_values=NAMESPACE,
)
_IMAGE_SIZE = flags.DEFINE_integer(
  "image_size",
  None,
  "Side to which images of folders are resized.",
  lower_bound=1,
  flag_values=NAMESPACE,
)


def settings() -> dict[str, Any]:
  """Returns the fields of a `ConversionRequest` that these flags give."""
  return {
    "split": _SPLIT.value,
    "test_fraction": _TEST_FRACTION.value,
    "test_date": _TEST_DATE.value,
    "heldout_every": _HELDOUT_EVERY.value,
    "min_examples": _MIN_EXAMPLES.value,
    "seed": _SEED.value,
    "num_clients": _NUM_CLIENTS.value,
    "partition": _PARTITION.value,
    "concentration": _CONCENTRATION.value,
    "shards_per_client": _SHARDS_PER_CLIENT.value,
    "image_size": _IMAGE_SIZE.value,
  }
