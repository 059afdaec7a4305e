"""Conversion: clients, train and test."""

import datetime
from collections.abc import Sequence

import numpy as np
from absl import flags

from binaries.command_line import UsageError
from binaries.data_flags import NAMESPACE
from tasks import cuts as partition
from tasks.conversions import stack_exchange
from tasks.conversions import test_choice as cuts
from tasks.conversions.client_data_file import Cut

SPLITS = ("source", "date", "random", "order")

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
  0.2,
  "Share of each client's examples that is test data, where --split is random "
  "or order; both halves get one at least.",
  flag_values=NAMESPACE,
)
_TEST_DATE = flags.DEFINE_string(
  "test_date",
  "2018-01-01",
  "First day (UTC) of the test data, where --split is date.",
  flag_values=NAMESPACE,
)
_HELDOUT_EVERY = flags.DEFINE_integer(
  "heldout_every",
  10,
  "Posts whose author's id this divides go to the split `heldout`, as TFF has "
  "it.",
  lower_bound=2,
  flag_values=NAMESPACE,
)
_MIN_EXAMPLES = flags.DEFINE_integer(
  "min_examples",
  1,
  "Clients with fewer examples are dropped.",
  lower_bound=1,
  flag_values=NAMESPACE,
)
_SEED = flags.DEFINE_integer(
  "seed",
  0,
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
  "dirichlet",
  ("dirichlet", "iid", "shards"),
  "How made-up clients get their labels: dirichlet, iid or shards.",
  flag_values=NAMESPACE,
)
_CONCENTRATION = flags.DEFINE_float(
  "concentration",
  0.5,
  "Concentration of the Dirichlet distribution; the smaller, the fewer labels "
  "a client has.",
  flag_values=NAMESPACE,
)
_SHARDS_PER_CLIENT = flags.DEFINE_integer(
  "shards_per_client",
  2,
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


def split(possible: Sequence[str]) -> str:
  """Returns how train and test are told apart.

  Args:
    possible: What the source allows, the default first.

  Raises:
    UsageError: If another is asked for.
  """
  if _SPLIT.value is None:
    return possible[0]
  if _SPLIT.value not in possible:
    raise UsageError(
      f"--split={_SPLIT.value}: is not possible with this source; expected "
      f"{' or '.join(possible)}."
    )
  return _SPLIT.value


def cut(how: str, train: str, test: str, others: Sequence[str] = ()) -> Cut:
  """Returns how each client is cut.

  Args:
    how: What `split` returned.
    train: Name of the split of training examples.
    test: Name of the split of test examples.
    others: Names of the splits that the source itself makes besides.

  Raises:
    UsageError: If a flag is out of range.
  """
  fraction = _TEST_FRACTION.value
  if not 0 < fraction < 1:
    raise UsageError(
      f"--test_fraction={fraction}: expected more than 0 and less than 1."
    )
  choose_test = (
    cuts.last_share(fraction)
    if how == "order"
    else cuts.random_share(fraction, _SEED.value)
  )
  return Cut(
    choose_test=choose_test,
    train=train,
    test=test,
    min_examples=_MIN_EXAMPLES.value,
    required=(train, test, *others),
  )


def post_split(how: str) -> stack_exchange.PostSplit:
  """Returns how posts are split.

  Raises:
    UsageError: If the date is none.
  """
  try:
    date = datetime.date.fromisoformat(_TEST_DATE.value).isoformat()
  except ValueError as error:
    raise UsageError(
      f"--test_date={_TEST_DATE.value}: expected a day as 2018-01-01."
    ) from error
  return stack_exchange.PostSplit(
    test_date=date if how == "date" else None,
    heldout_every=_HELDOUT_EVERY.value,
  )


def makes_up_clients() -> bool:
  """Returns whether clients are to be made up."""
  return _NUM_CLIENTS.value is not None


def clients(labels: np.ndarray) -> list[np.ndarray]:
  """Deals examples out to made-up clients.

  Args:
    labels: Labels of the examples.

  Returns:
    Positions of each client's examples.

  Raises:
    UsageError: If the flags do not fit the examples, or their number of clients
      is missing.
  """
  num_clients, seed = _NUM_CLIENTS.value, _SEED.value
  if num_clients is None:
    raise UsageError(
      "--num_clients: is missing; the source has no clients of its own."
    )
  try:
    match _PARTITION.value:
      case "iid":
        return partition.iid(len(labels), num_clients, seed)
      case "shards":
        return partition.label_shards(
          labels, num_clients, _SHARDS_PER_CLIENT.value, seed
        )
      case _:
        return partition.dirichlet(
          labels, num_clients, _CONCENTRATION.value, seed
        )
  except ValueError as error:
    raise UsageError(f"--partition={_PARTITION.value}: {error}") from error


def image_size() -> int | None:
  """Returns the side to resize images to, if they are to be."""
  return _IMAGE_SIZE.value
