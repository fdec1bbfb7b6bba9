"""Imports what CPU workers need, in the server that they are forked from.

Packages of others are not imported, because threads that they may start would not survive the fork.
"""

import gc
import importlib.metadata
import signal

gc.disable()  # would look through what is imported a hundred times, a sixth of the time, and find nothing

import imharness.running.context  # noqa: E402, F401
from imharness.components.loading import GROUP, load_plugins  # noqa: E402

signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends with the run that started it
load_plugins(importlib.metadata.distribution("image-privacy-harness").entry_points.select(group=GROUP))
gc.freeze()  # garbage collection skips what was imported, in workers and at the end of the server
gc.enable()
