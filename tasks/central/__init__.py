"""Centrally stored data sets, divided among clients."""

from tasks.central.cut_task import (
  ImageOptions as ImageOptions,
  ModelOptions as ModelOptions,
  build_image_task as build_image_task,
  build_task as build_task,
  in_memory as in_memory,
  on_disk as on_disk,
)
from tasks.central.cutting import (
  CentralData as CentralData,
  CutOptions as CutOptions,
  Partition as Partition,
  TestData as TestData,
  select_classes as select_classes,
)
from tasks.models import ImageModelName as ImageModelName
