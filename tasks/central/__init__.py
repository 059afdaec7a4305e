"""Data sets in one place, cut over clients: labels, partition, task."""

from tasks.central.cut_task import ImageOptions as ImageOptions
from tasks.central.cut_task import ModelOptions as ModelOptions
from tasks.central.cut_task import build_image_task as build_image_task
from tasks.central.cut_task import build_task as build_task
from tasks.central.cut_task import in_memory as in_memory
from tasks.central.cut_task import on_disk as on_disk
from tasks.central.cutting import CentralData as CentralData
from tasks.central.cutting import CutOptions as CutOptions
from tasks.central.cutting import Partition as Partition
from tasks.central.cutting import TestData as TestData
from tasks.central.cutting import select_classes as select_classes
from tasks.models import ImageModelName as ImageModelName
