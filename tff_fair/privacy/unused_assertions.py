"""Keeps TensorFlow's messages about TFF's secure sums out of the log.

TFF creates an assertion for each tensor of a secure sum, but uses none of these
assertions. TensorFlow logs each as an error of ten lines.
"""

import logging

import tensorflow as tf

_NOTE, _ASSERTION = "Object was never used", "assert_less_equal"


def keep_out_of_log() -> None:
  """Drops the messages about unused assertions from TensorFlow's log."""
  tf.get_logger().addFilter(_is_no_note)  # Adds the filter only once.


def _is_no_note(record: logging.LogRecord) -> bool:
  text = record.getMessage()
  return _NOTE not in text or _ASSERTION not in text
