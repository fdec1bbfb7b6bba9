"""For packages that extend the harness: contracts of their own, executors, and functions of notebooks.

A *contract* is a `Component` with the values that go in and come out. An *executor* computes tasks. A *function of
notebooks* reads arguments, refuses wrong ones in one line, and returns a `Result`; a package offers it by an entry
point in the group ``imharness.notebook``, named as in `imharness`.
"""

from imharness.components.code import digest_of_files, package_files
from imharness.components.registry import installed
from imharness.contracts.assets import add_folder, folders
from imharness.contracts.call import Call, checked
from imharness.contracts.component import Component, Info
from imharness.contracts.values import (
    GENERATOR,
    GRADIENTS,
    IMAGES,
    NUMBER,
    PROBABILITIES,
    SAME_IMAGES,
    SCORES,
    STREAMS,
    TARGETS,
    Record,
    Rows,
    Several,
    ValueKind,
)
from imharness.notebook.arguments import address_of, flag, listed, naming, real, seed_of, short, text, whole, wrong
from imharness.notebook.coercion import array_of, component_from, images_of, refuse_other_orders
from imharness.notebook.objects import UserObject
from imharness.notebook.outputs import output_of
from imharness.notebook.progress import shown_progress
from imharness.notebook.randomness import say_who_drew
from imharness.notebook.result import Result
from imharness.notebook.score import metric_of, scores_of
from imharness.reading.fields import explain
from imharness.results.identity import digest
from imharness.results.labels import printed
from imharness.results.storage import sha256_of
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord, TaskSpec
from imharness.running.context import libraries
from imharness.running.executor import Executor, ExecutorOffer, TaskResult, Worker, WorkerConfig
from imharness.running.subprocesses import can_copy, in_copies

__all__ = [
    "GENERATOR",
    "GRADIENTS",
    "IMAGES",
    "NUMBER",
    "PROBABILITIES",
    "SAME_IMAGES",
    "SCORES",
    "STREAMS",
    "TARGETS",
    "Call",
    "Component",
    "Executor",
    "ExecutorOffer",
    "Info",
    "Record",
    "Result",
    "Rows",
    "Several",
    "Store",
    "TaskRecord",
    "TaskResult",
    "TaskSpec",
    "UserObject",
    "ValueKind",
    "Worker",
    "WorkerConfig",
    "add_folder",
    "address_of",
    "array_of",
    "can_copy",
    "checked",
    "component_from",
    "digest",
    "digest_of_files",
    "explain",
    "flag",
    "folders",
    "images_of",
    "in_copies",
    "installed",
    "libraries",
    "listed",
    "metric_of",
    "naming",
    "output_of",
    "package_files",
    "printed",
    "real",
    "refuse_other_orders",
    "say_who_drew",
    "scores_of",
    "seed_of",
    "sha256_of",
    "short",
    "shown_progress",
    "text",
    "whole",
    "wrong",
]
