"""Readers of published image data sets: arrays or paths, never clients."""

from tasks.image_files.labeled import LabeledImages as LabeledImages
