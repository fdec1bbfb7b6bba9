"""For people who write executors: the workers that compute tasks, the store that keeps results, and tasks as data."""

from imharness.cli import console
from imharness.components.registry import installed
from imharness.contracts.assets import add_folder, folders
from imharness.reading.fields import explain
from imharness.results.identity import digest
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord, TaskSpec
from imharness.running.context import libraries
from imharness.running.executor import Executor, ExecutorOffer, TaskResult, Worker, WorkerConfig

__all__ = [
    "Executor",
    "ExecutorOffer",
    "Store",
    "TaskRecord",
    "TaskResult",
    "TaskSpec",
    "Worker",
    "WorkerConfig",
    "add_folder",
    "console",
    "digest",
    "explain",
    "folders",
    "installed",
    "libraries",
]
