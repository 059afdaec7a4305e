"""Which values several settings take."""

from tff_fair.experiments import declared, number_range

A_RANGE: declared.Bounds = {
  "expects": number_range.EXPECTED,
  "is_valid": number_range.is_valid,
}
A_SEED: declared.Bounds = {
  "expects": "a non-negative integer",
  "is_valid": lambda value: value >= 0,
}
