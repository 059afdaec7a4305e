"""Keeps a note of TensorFlow's about TFF's secure sums out of the log.

TFF makes an assertion for each tensor of a secure sum and uses none of them.
TensorFlow logs each in ten lines, as an error.
"""

import logging

import tensorflow as tf

_NOTE, _ASSERTION = "Object was never used", "assert_less_equal"


def keep_out_of_log() -> None:
  """Drops these notes from now on, and no other ones."""
  tf.get_logger().addFilter(_is_no_note)  # Adds it once.


def _is_no_note(record: logging.LogRecord) -> bool:
  text = record.getMessage()
  return _NOTE not in text or _ASSERTION not in text
