"""For people who write executors: workers that compute tasks, the store that keeps results, and what a task is."""

from imharness.cli import console
from imharness.components.registry import installed
from imharness.contracts.assets import add_folder, folders
from imharness.errors import DamagedError, HarnessError, StoreError, Unavailable, UsageError
from imharness.reading.fields import explain
from imharness.results.identity import digest
from imharness.results.records import TaskRecord, TaskSpec
from imharness.results.store import Store
from imharness.running.context import libraries
from imharness.running.executor import Executor, TaskResult, Worker, WorkerConfig

__all__ = [
    "DamagedError", "Executor", "HarnessError", "Store", "StoreError", "TaskRecord", "TaskResult", "TaskSpec",
    "Unavailable", "UsageError", "Worker", "WorkerConfig", "add_folder", "console", "digest", "explain", "folders",
    "installed", "libraries",
]  # fmt: skip
