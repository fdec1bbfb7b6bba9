"""Imported by the server that forks workers on the CPU: all but packages of others, whose threads no fork takes."""

import gc
import importlib.metadata
import signal

import imharness.running.context  # noqa: F401
from imharness.components.loading import GROUP, load_plugins

signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends with the run that started it
load_plugins(importlib.metadata.distribution("image-privacy-harness").entry_points.select(group=GROUP))
gc.freeze()  # no worker looks through what was imported, nor does the server when it ends
