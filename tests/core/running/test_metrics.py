"""Metrics of a run for Prometheus: they have the numbers of the run's state, in the format that Prometheus reads."""

import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.core.running.schedule.test_watching import Storing, graph, state

from imharness.cli.run import _served
from imharness.errors import Unavailable, UsageError
from imharness.results.store import Store
from imharness.running.metrics import Metrics
from imharness.running.schedule.estimates import Times
from imharness.running.schedule.state import Busy, RunState
from imharness.running.sweep import execute
from imharness.running.views import Nothing
from imharness.running.watching import RunWatch


def parsed(text: str) -> dict[tuple[str, str], float]:
    """Return the samples of a page by name and labels, as Prometheus' own parser reads them."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    values = {
        (sample.name, ",".join(f"{key}={text}" for key, text in sample.labels.items())): sample.value
        for sample in samples
    }
    assert len(values) == len(samples)
    assert all(name.startswith("harness_run_") for name, _ in values)
    return values


def page(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=120) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return answer.read().decode()


@contextmanager
def served(run: RunState) -> Iterator[dict[tuple[str, str], float]]:
    metrics = Metrics("0")
    try:
        assert parsed(page(metrics.port)) == {}
        metrics.show(run)
        yield parsed(page(metrics.port))
    finally:
        metrics.close()


def test_the_page_has_what_the_run_knows() -> None:
    busy = (Busy(track="a/t", task="attack cnn uap", seconds=12.4),)
    with served(state(running=busy, host='a "host"\\\n')) as values:
        wanted = {
            ("harness_run_tasks", "track=a/t"): 5000,
            ("harness_run_tasks", "track=b/u"): 42,
            ("harness_run_tasks_finished", "track=a/t"): 1200,
            ("harness_run_tasks_running", "track=a/t"): 1,
            ("harness_run_tasks_running", "track=b/u"): 0,
            ("harness_run_tasks_done_total", ""): 1201,
            ("harness_run_tasks_failed_total", ""): 2,
            ("harness_run_left_seconds", ""): 1260,
        }
        assert {name: values[name] for name in wanted} == wanted
        assert values["harness_run_updated_time_seconds", ""] - values["harness_run_start_time_seconds", ""] == 754
        (about,) = [labels for name, labels in values if name == "harness_run_info"]
        assert 'host=a "host"\\\n' in about


def test_a_bound_has_a_name_of_its_own_and_what_is_not_known_has_none() -> None:
    with served(state(at_least=True)) as bound, served(state(left_s=None)) as unknown:
        assert bound["harness_run_left_at_least_seconds", ""] == 1260
        assert ("harness_run_left_seconds", "") not in bound
        assert not [name for name, _ in unknown if "left" in name]


def test_a_run_serves_its_state_to_this_machine_while_it_goes_on(tmp_path: Path) -> None:
    store, run_graph, metrics = Store(tmp_path), graph(), Metrics("0")
    metrics.every_s = 0.0
    assert metrics.host == "127.0.0.1"
    seen = list[float]()

    class Asking(Storing):
        def reports(self, seconds: float):
            text = page(metrics.port)
            seen.append(parsed(text)["harness_run_tasks_finished", "track=a/t"])
            yield from super().reports(seconds)

    with RunWatch([run_graph], store, Nothing(), Times("cpu"), others=[metrics]) as watch:
        execute([run_graph], store, lambda: Asking(store), order=watch.order, watch=watch.watch)
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0, 9)
    with pytest.raises(urllib.error.URLError):
        page(metrics.port)


@pytest.mark.parametrize("address", ["no", "99999", "1.2.3.4:", "a b:80"])
def test_what_is_no_place_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="neither a port nor HOST:PORT"):
        Metrics(address)


def test_a_port_that_is_taken_is_named() -> None:
    first = Metrics("0")
    with pytest.raises(UsageError, match=f"cannot listen on {first.port}: Address already in use"):
        Metrics(str(first.port))
    first.close()


def test_without_its_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "imharness.running.metrics")
    with pytest.raises(Unavailable, match=r"prometheus_client is not installed; get it with: pip install .*prometheus"):
        _served("0")
