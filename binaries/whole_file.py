"""Writes text files that are there as a whole or not at all."""

from tff_fair.files import write as write  # noqa: PLC0414
