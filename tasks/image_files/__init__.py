"""Readers of published image data sets: arrays or paths, never clients."""

from tasks.image_files.labeled import LabeledImages as LabeledImages
from tasks.image_files.labeled import check_labels as check_labels
