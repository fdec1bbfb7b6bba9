"""The rows that runs have written, to compare them: the files of tasks also have times, which differ."""

from pathlib import Path

from imharness.results.storage.taskfiles import TASKS, digest_of, rows_in, task_files
from imharness.results.store import Store


def rows_of(folder: Path) -> dict[str, str]:
    """Return key -> a digest of the rows, for each task that has rows; raises `DamagedError`."""
    store, digests = Store(folder), dict[str, str]()
    for key, files in task_files(store.backend.sizes(TASKS)).items():
        table = rows_in(store.verified(files[-1].name, files[-1].sha256))
        if table.num_rows:
            digests[key] = digest_of(table)
    return digests


def files_of(folder: Path, key: str = "") -> list[Path]:
    """Return the files of a task, or of all, sorted."""
    files_by_task = task_files(Store(folder).backend.sizes(TASKS))
    return sorted(folder / file.name for task, files in files_by_task.items() if task.startswith(key) for file in files)
