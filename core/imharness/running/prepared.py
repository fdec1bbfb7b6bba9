"""Imported by the server that workers on the CPU are forked from: what each of them needs of this distribution.

Packages of others are imported by the worker itself, because they may start threads, which no fork takes along.
"""

import importlib.metadata
import signal

import imharness.running.context  # noqa: F401
from imharness.components.loading import GROUP, load_plugins

signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends with the run that started it
load_plugins(importlib.metadata.distribution("image-privacy-harness").entry_points.select(group=GROUP))
