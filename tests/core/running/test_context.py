"""What a worker keeps between tasks, and batches that do not fit into memory."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from imharness.components.registry import installed
from imharness.contracts.image_dataset import ImageSet
from imharness.errors import StoreError
from imharness.results.identity import digest
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord, TaskSpec
from imharness.running import context as running_context
from imharness.running.context import BuildCache, TaskContext
from imharness.running.memory import in_chunks
from imharness.running.shards import Shards


def spec(number: int, needs: dict[str, str] | None = None) -> TaskSpec:
    return TaskSpec(
        track="acme/track",
        step="step",
        version="1",
        components={},
        options={"number": number},
        limit=None,
        seed=0,
        needs=needs or {},
    )


def stored(store: Store, number: int) -> str:
    """Store a task whose rows and arrays hold its number; return its key."""
    task_spec = spec(number)
    key = digest(task_spec.identity())
    record = TaskRecord(
        key=key, spec=task_spec, status="done", started="2026-01-01", seconds=0.0, device="cpu", versions={}
    )
    store.commit(record, {"name": ["a", "b"]}, {"images": np.full((2, 3, 4, 4), number, np.uint8)})
    return key


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


@pytest.fixture
def cache(store: Store) -> BuildCache:
    return BuildCache(installed(), store, torch.device("cpu"), 4)


def context(cache: BuildCache, key: str) -> TaskContext:
    return TaskContext(cache, Shards(cache.store, "0" * 64), spec(-1, {"attacked": key}), lambda done, total: None)


def files(store: Store) -> list[Path]:
    return [path for folder in ("tasks", "artifacts") for path in (store.root / folder).glob("*/*")]


def test_what_a_task_needs_is_read_and_verified_once(store: Store, cache: BuildCache) -> None:
    key = stored(store, 7)
    first = context(cache, key).need("attacked")
    for path in files(store):
        path.unlink()
    second = context(cache, key).need("attacked")
    assert list(second.rows["name"]) == list(first.rows["name"]) == ["a", "b"]
    assert np.array_equal(second.arrays["images"], np.full((2, 3, 4, 4), 7, np.uint8))


def test_a_step_that_writes_into_what_it_got_changes_it_for_nobody_else(store: Store, cache: BuildCache) -> None:
    key = stored(store, 7)
    torch.from_numpy(context(cache, key).need("attacked").arrays["images"]).zero_()
    assert (context(cache, key).need("attacked").arrays["images"] == 7).all()


def test_damage_is_found_at_the_first_read(store: Store, cache: BuildCache) -> None:
    key = stored(store, 7)
    (path,) = (store.root / "artifacts").glob("*/*")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(StoreError, match="is damaged"):
        context(cache, key).need("attacked")
    with pytest.raises(StoreError, match="is not in the store"):
        context(cache, "1" * 64).need("attacked")


def test_what_was_used_least_recently_gives_way(
    store: Store, cache: BuildCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Room for two outputs, not for three: each has 96 bytes and two names.
    monkeypatch.setattr(running_context, "OUTPUT_BYTES", 300)
    keys = [stored(store, number) for number in range(3)]
    for number in (0, 1, 0, 2):
        context(cache, keys[number]).need("attacked")
    for path in files(store):
        path.unlink()
    for number in (0, 2):
        assert (context(cache, keys[number]).need("attacked").arrays["images"] == number).all()
    with pytest.raises(StoreError):
        context(cache, keys[1]).need("attacked")


@pytest.mark.parametrize("fits", [1, 3, 5, 100])
def test_a_range_that_does_not_fit_is_halved(fits: int) -> None:
    lengths = []

    def compute(start: int, stop: int) -> list[int]:
        lengths.append(stop - start)
        if stop - start > fits:
            raise MemoryError
        return list(range(start, stop))

    chunks, size = in_chunks(11, 8, compute)
    assert [number for chunk in chunks for number in chunk] == list(range(11))
    assert size <= max(fits, 8)
    assert sum(length > fits for length in lengths) <= 3, "the size that fitted is kept"


def test_what_does_not_fit_alone_is_an_error_and_so_is_any_other_error() -> None:
    for error in (MemoryError("too large"), RuntimeError("something else")):

        def fail(start: int, stop: int, error: Exception = error) -> None:
            raise error

        with pytest.raises(type(error), match=str(error)):
            in_chunks(3, 2, fail)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="by the C library of Linux")
def test_a_worker_asks_the_system_for_no_page_twice() -> None:
    """Without `keep_freed_memory`, each array of 2 MB costs some 500 page faults each time that it is made."""
    code = """if True:
        import resource
        import numpy as np
        from imharness.running.memory import keep_freed_memory
        keep_freed_memory()
        def pages() -> int:
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        def work() -> None:
            made = [np.ones(250_000) for _ in range(10)]
        work()
        before = pages()
        for _ in range(10):
            work()
        print(pages() - before)"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(process.stdout) < 500


def test_map_joins_batches_row_by_row_whatever_fits(store: Store, cache: BuildCache) -> None:
    pixels = torch.arange(10.0).reshape(10, 1, 1, 1).expand(10, 3, 2, 2) / 10
    images = ImageSet(
        names=tuple(map(str, range(10))), shapes=((2, 2),) * 10, load=lambda positions: pixels[list(positions)]
    )
    seen: list[tuple[int, int]] = []
    context = TaskContext(
        cache, Shards(cache.store, "0" * 64), spec(-1), lambda done, total: seen.append((done, total))
    )

    def function(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
        if len(positions) > 3:
            raise MemoryError
        return {"mean": batch.mean(dim=(1, 2, 3)), "position": torch.tensor(positions)}

    columns = context.map(images, function)
    assert columns["position"].tolist() == list(range(10))
    assert columns["mean"] == pytest.approx(np.arange(10) / 10)
    assert seen[-1] == (10, 10)


def test_what_a_part_tells_of_itself_is_a_part_of_the_step(cache: BuildCache) -> None:
    messages = list[tuple[int, int]]()
    key = "a" * 64
    context = TaskContext(cache, Shards(cache.store, key), spec(1), lambda done, total: messages.append((done, total)))

    def one(start: int, stop: int) -> dict[str, np.ndarray]:
        context.progress(1, 2)
        return {"x": np.arange(start, stop)}

    assert context.chunks(4, 2, one)["x"].tolist() == [0, 1, 2, 3]
    assert [done / total for done, total in messages] == [0.25, 0.5, 0.75, 1.0]
