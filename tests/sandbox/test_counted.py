"""Memory and processes of a guest are counted from outside, however they are hidden."""

import os
import signal
import subprocess
import sys

from imharness_submissions.sandbox.processes import counted, used_mib

MIB = 64
"""The memory that the program below fills after its first thread has ended."""
FIRST_THREAD_ENDS = f"""
import ctypes, threading, time
def work():
    while len(open("/proc/self/status").read().split("VmRSS")) > 1:
        time.sleep(0.01)
    held = bytes(range(256)) * ({MIB} << 12)
    print("ready", flush=True)
    time.sleep(60)
threading.Thread(target=work).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_memory_counts_when_the_first_thread_has_ended() -> None:
    """The kernel then reports no memory under the id of the process, only under those of its other threads."""
    with subprocess.Popen([sys.executable, "-c", FIRST_THREAD_ENDS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        processes = counted(process.pid)
        used = [used_mib(processes, limit) for limit in (1e9, 1)]
        process.kill()
    assert [one.pid for one in processes] == [process.pid]
    assert min(used) > MIB


def test_counting_ends_with_the_first_process_after_the_limit() -> None:
    """Otherwise counting a guest that forks without end would not end."""
    start = "for i in 1 2 3 4 5; do sleep 60 & done; echo ready; wait"
    with subprocess.Popen(["sh", "-c", start], stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        every, some = counted(process.pid), counted(process.pid, most=2)
        os.killpg(process.pid, signal.SIGKILL)
    assert (len(every), len(some)) == (6, 3)
