"""Data and models to train on: federated learning tasks by name."""

from tasks.registry import load as load
from tasks.registry import names as names
from tasks.registry import option_defaults as option_defaults
from tasks.registry import option_names as option_names
from tasks.registry import parse_options as parse_options
from tasks.task import DataError as DataError
from tasks.task import Split as Split
from tasks.task import Task as Task
