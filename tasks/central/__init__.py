"""Builds tasks from centrally stored data sets, divided among clients."""

from tasks.central.partitioned_task import (
  ImageOptions as ImageOptions,
  ModelOptions as ModelOptions,
  build_image_task as build_image_task,
  build_task as build_task,
  images_in_memory as images_in_memory,
  images_on_disk as images_on_disk,
)
from tasks.central.partitioning import (
  CentralData as CentralData,
  CutOptions as CutOptions,
  Partition as Partition,
  TestData as TestData,
  select_classes as select_classes,
)
from tasks.models import ImageModelName as ImageModelName
