import pytest

import tff_fair
from binaries import command_line
from binaries.flags import algorithm_flags

DEFAULTS = {"on": True, "count": 3, "rate": 0.5, "order": "loss"}
OPTIONAL = {"bound": None}


@pytest.mark.parametrize(
  ("assignment", "value"),
  [
    ("on=false", False),
    ("on=True", True),
    ("on=0", False),
    ("count=-7", -7),
    ("rate=2", 2.0),
    ("rate=1e-3", 1e-3),
    ("order=random", "random"),
    ("order=a=b", "a=b"),
    ("order=", ""),
  ],
)
def test_a_value_has_the_type_of_the_default(assignment, value):
  name = assignment.partition("=")[0]
  (found,) = algorithm_flags.parse_hparams(DEFAULTS, [assignment]).items()
  assert found == (name, value)
  assert type(found[1]) is type(DEFAULTS[name])


@pytest.mark.parametrize(
  ("assignments", "message"),
  [
    (["on=maybe"], "--hparam=on=maybe: expected true or false"),
    (["count=0.5"], "--hparam=count=0.5: expected an integer"),
    (["rate=high"], "--hparam=rate=high: expected a number"),
    (["rate="], "--hparam=rate=: expected a number"),
    (["rate"], "--hparam=rate: expected name=value"),
    (["=1"], "--hparam==1: unknown hyperparameter"),
    (["q=1"], "valid, with defaults: on=True, count=3, rate=0.5, order=loss"),
    (["rate=1", "rate=1"], "rate is given twice"),
  ],
)
def test_a_bad_value_is_named(assignments, message):
  with pytest.raises(command_line.UsageError) as info:
    algorithm_flags.parse_hparams(DEFAULTS, assignments)
  assert message in str(info.value)


@pytest.mark.parametrize(
  ("text", "value"),
  [("none", None), ("None", None), ("2", 2.0), ("1e-3", 1e-3)],
)
def test_a_number_that_need_not_be_given(text, value):
  found = algorithm_flags.parse_hparams(OPTIONAL, [f"bound={text}"])
  assert found == {"bound": value}
  assert type(found["bound"]) is type(value)


@pytest.mark.parametrize("text", ["", "high", "nothing", "true"])
def test_a_number_that_need_not_be_given_is_one(text):
  with pytest.raises(
    command_line.UsageError, match="expected a number or none"
  ):
    algorithm_flags.parse_hparams(OPTIONAL, [f"bound={text}"])


@pytest.mark.parametrize("name", tff_fair.algorithms.names())
def test_every_hyperparameter_can_be_given_as_text(name):
  defaults = dict(tff_fair.algorithms.get(name).hparams)
  texts = [f"{key}={value}" for key, value in defaults.items()]
  assert algorithm_flags.parse_hparams(defaults, texts) == defaults
