"""Takes from every process what Windows lacks; Python imports this module when it starts with this folder on its path.

Locks of `msvcrt` are replaced by the locks of ranges that POSIX has. In the harness, a text file that is opened without
an encoding is an error, because Windows has another default. What libraries ask of Linux stays.
"""

import fcntl
import multiprocessing.context
import multiprocessing.popen_fork
import os
import shutil
import signal
import subprocess
import sys
import types
import warnings

GONE = {
    multiprocessing.context: ("ForkContext", "ForkServerContext"),
    signal: ("SIGALRM", "SIGKILL", "SIGHUP", "SIGUSR1", "setitimer"),
    os: (
        *("fork", "forkpty", "fchmod", "killpg", "setsid", "sched_getaffinity", "getloadavg"),
        *("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY"),
    ),
}
"""Module -> the names that Windows lacks."""
KILL = signal.SIGKILL


def locking(descriptor: int, mode: int, count: int) -> None:
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, count, 0, os.SEEK_CUR)


class StartedAnew(multiprocessing.context.SpawnContext):
    def get_all_start_methods(self) -> list[str]:
        return ["spawn"]


multiprocessing.popen_fork.Popen.kill = lambda popen: popen._send_signal(KILL)
subprocess.Popen.kill = lambda process: process.send_signal(KILL)
multiprocessing.context._concrete_contexts = {"spawn": StartedAnew()}
multiprocessing.context._default_context._actual_context = multiprocessing.context._concrete_contexts["spawn"]
multiprocessing.get_all_start_methods = lambda: ["spawn"]
shutil._use_fd_functions = False  # `shutil` looked at `os` before this line
sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2)
sys.modules.update(dict.fromkeys(("fcntl", "resource", "multiprocessing.forkserver")))
for module, names in GONE.items():
    for name in names:
        delattr(module, name)
warnings.filterwarnings("ignore", category=EncodingWarning)
warnings.filterwarnings("error", category=EncodingWarning, module="imharness")
