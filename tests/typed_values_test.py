"""Tests of values of annotated types."""

from typing import Literal

import numpy as np
import pytest

from tff_fair import typed_values

pytestmark = pytest.mark.pure

Kind = Literal["loss", "random"]


@pytest.mark.parametrize(
  ("annotation", "value", "expected"),
  [
    (int, np.int32(3), 3),
    (float, 1, 1.0),
    (float, np.float32(0.5), 0.5),
    (float | None, None, None),
    (float | None, 2, 2.0),
    (bool, False, False),
    (str, "", ""),
    (Kind, "random", "random"),
    (int | Literal["all"], "all", "all"),
  ],
)
def test_values_come_back_in_their_type(annotation, value, expected):
  found = typed_values.check("x", annotation, value)
  assert found == expected
  assert type(found) is type(expected)
  assert typed_values.parse("x", annotation, typed_values.text(value)) == found


@pytest.mark.parametrize(
  ("annotation", "value"),
  [
    (int, 1.0),
    (int, True),
    (float, "1"),
    (float, float("nan")),
    (float, 10**400),
    (bool, 1),
    (str, None),
    (Kind, "los"),
    (Kind, ["loss"]),
  ],
)
def test_other_values_are_refused(annotation, value):
  with pytest.raises(ValueError, match=r"^x must be .*, found "):
    typed_values.check("x", annotation, value)


def test_assignments_are_read_by_annotation():
  annotations = {"q": float, "bound": float | None, "order": Kind, "on": bool}
  texts = ["q=1", "bound=none", "order=loss", "on=False"]
  values = typed_values.parse_assignments(annotations, texts, what="option")
  assert values == {"q": 1.0, "bound": None, "order": "loss", "on": False}


@pytest.mark.parametrize(
  ("texts", "message"),
  [
    (["q"], "'q' is not of the form name=value"),
    (["p=1"], "unknown option 'p'; valid options: q"),
    (["q=1", "q=2"], "q is given twice"),
    (["q=one"], "q must be a finite number, found 'one'"),
  ],
)
def test_bad_assignments_are_named(texts, message):
  with pytest.raises(ValueError, match=message):
    typed_values.parse_assignments({"q": float}, texts, what="option")
