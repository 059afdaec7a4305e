import pytest

from tff_fair.experiments.sweeps import setting_tables
from tff_fair.experiments.sweeps.setting_tables import Range


@pytest.mark.parametrize(
  ("text", "expected"),
  [
    ("0.001:1:log", Range(0.001, 1, is_logarithmic=True)),
    ("1:8", Range(1, 8)),
    ("-1:2.5", Range(-1, 2.5)),
    ("1e-4:1e-1:log", Range(0.0001, 0.1, is_logarithmic=True)),
    ("4:32:4", Range(4, 32, step=4)),
  ],
)
def test_a_range_is_read_and_written(text, expected):
  found = setting_tables.parse_range(text)
  assert found == expected
  assert type(found.low) is type(expected.low)
  assert setting_tables.parse_range(str(found)) == expected


@pytest.mark.parametrize(
  ("text", "said"),
  [
    ("1", "expected LOW:HIGH"),
    ("a:b", "expected LOW:HIGH"),
    ("1:2:linear", "LOW:HIGH:STEP"),
    ("1:2:log:3", "expected LOW:HIGH"),
    ("2:1", "LOW to be less"),
    ("1:1", "LOW to be less"),
    ("0:1:log", "has no logarithm"),
    ("0:inf", "finite"),
    ("nan:1", "finite"),
    ("0:1:2", "that fits"),
    ("0:1:0", "above 0"),
  ],
)
def test_other_texts_are_mistakes(text, said):
  with pytest.raises(ValueError, match=said):
    setting_tables.parse_range(text)


def test_a_logarithm_has_no_steps():
  with pytest.raises(ValueError, match="not both"):
    Range(1, 2, is_logarithmic=True, step=1)
