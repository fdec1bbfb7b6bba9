"""Rows, trained weights and audits depend neither on threads nor on what was set in the process before."""

import json
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from tests.core.running.test_shards import SELECTIONS, graph_of
from tests.rows_of import rows_of
from threadpoolctl import threadpool_info

from imharness.cli import cli
from imharness.planning.plan import Graph
from imharness.results.store import Store
from imharness.running.executor import open_executor
from imharness.running.numerics import SUBNORMAL, VARIABLES, fresh_numerics
from imharness.running.sweep import execute

SEEN = "harness/severity-ladder[split=train,per_photograph=1,severities=[2],size=48]"
TRAINING = ("train", "nt", "--metric", "embedded-cnn", "--train", SEEN, "--test", SEEN, "--epochs", "1", "--json")
LIKE = [1, 2, 4, "strange"]
"""What `make` sets: numbers of threads, or "strange": four threads and other unusual settings."""


def settings() -> list[object]:
    """What is set in this process."""
    return [
        torch.get_num_threads(),
        torch.get_default_dtype(),
        torch.get_deterministic_debug_mode(),
        torch.get_float32_matmul_precision(),
        torch.backends.mkldnn.enabled,
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.allow_tf32,
        SUBNORMAL * 1.0,
        *map(os.environ.get, VARIABLES),
        {one["num_threads"] for one in threadpool_info()},
    ]


FRESH = [1, torch.float32, 0, "highest", True, False, True, False, SUBNORMAL, *["1"] * len(VARIABLES), {1}]
"""What `settings` returns in a fresh process."""


def make(like: object) -> None:
    """Set so many threads and the usual settings, or, if "strange", four threads and unusual settings."""
    strange = like == "strange"
    torch.set_num_threads(4 if strange else like)  # type: ignore[arg-type]
    torch.set_default_dtype(torch.float64 if strange else torch.float32)
    torch.set_deterministic_debug_mode(int(strange))
    torch.set_float32_matmul_precision("medium" if strange else "highest")
    torch.set_flush_denormal(strange)
    torch.backends.mkldnn.enabled = not strange
    torch.backends.cudnn.benchmark = torch.backends.cudnn.allow_tf32 = strange
    torch.backends.cudnn.deterministic = not strange


@pytest.fixture(autouse=True)
def process() -> Iterator[None]:
    """Give the process its threads and the usual settings back after each test."""
    threads = torch.get_num_threads()
    yield
    make(threads)


def test_all_is_as_in_a_fresh_process_and_put_back_after() -> None:
    np.ones(3) @ np.ones(3)
    make("strange")
    before = settings()
    with fresh_numerics():
        assert settings() == FRESH
    assert settings() == before
    with suppress(KeyError), fresh_numerics():
        raise KeyError
    assert settings() == before
    assert before[:7] == [4, torch.float64, 1, "medium", False, True, 0.0]


def test_threads_that_are_inside_together_keep_it_until_the_last_one_leaves() -> None:
    make("strange")
    before, both, leaving = settings(), threading.Barrier(2, timeout=60), threading.Event()
    seen: list[object] = []

    def leave_first() -> None:
        with fresh_numerics():
            both.wait()
        leaving.set()

    def stay() -> None:
        with fresh_numerics():
            both.wait()
            assert leaving.wait(60)
            seen.extend(settings())

    threads = [threading.Thread(target=one) for one in (leave_first, stay)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == FRESH
    assert settings()[:-1] == before[:-1]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """Track -> the rows that a worker process writes; one computes those of all tracks."""
    graphs = {track: graph_of(track) for track in SELECTIONS}
    records = run(graphs.values(), tmp_path_factory.mktemp("worker"), workers=1)
    return {track: {key: records[key] for key in records if key in graphs[track].tasks} for track in graphs}


def run(graphs: Iterable[Graph], folder: Path, **settings: int) -> dict[str, str]:
    store, plans = Store(folder), list(graphs)
    outcome = execute(plans, store, lambda: open_executor(store.root, devices=["cpu"], batch_size=4, **settings))
    assert outcome.done == {key for graph in plans for key in graph.tasks}
    return rows_of(folder)


@pytest.mark.parametrize("track", SELECTIONS)
def test_rows_computed_in_this_process_are_those_of_a_worker(
    track: str, rows: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    """Here with four threads and other unusual settings; other numbers of threads are tried where weights are
    trained."""
    make("strange")
    assert run([graph_of(track)], tmp_path, workers=0) == rows[track] != {}
    assert torch.get_num_threads() == 4


def test_a_training_gives_the_same_weights_whatever_the_threads_and_the_process_before(tmp_path: Path) -> None:
    weights = set()
    for like in LIKE:
        make(like)
        done = CliRunner().invoke(cli, [*TRAINING, "--out", str(tmp_path / str(like))], catch_exceptions=False)
        weights.add(Path(json.loads(done.output)["weights"]).read_bytes())
    assert len(weights) == 1
