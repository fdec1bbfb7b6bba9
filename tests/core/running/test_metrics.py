"""Metrics of a run for Prometheus: they are what the run says of itself, in the format and with the names it wants."""

import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests.core.running.schedule.test_watching import Storing, graph, state

from imharness.errors import UsageError
from imharness.results.store import Store
from imharness.running.metrics import CONTENT, Metrics, lines_of
from imharness.running.schedule.estimates import Times
from imharness.running.schedule.state import Busy
from imharness.running.sweep import execute
from imharness.running.views import Nothing
from imharness.running.watching import RunWatch

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\n"])*",?)*)\})? (-?[0-9.e+-]+)')


def parsed(text: str) -> dict[tuple[str, str], float]:
    """Return the samples by name and labels, after a check of everything that the format says."""
    kinds, found, last = dict[str, str](), dict[tuple[str, str], float](), ""
    for line in text.splitlines():
        if line.startswith("# "):
            _, word, name, rest = line.split(" ", 3)
            assert re.fullmatch(r"harness_run_[a-z_]+", name)
            if word == "HELP":
                assert name not in kinds, "each metric has its samples in one place"
                last = name
            else:
                kinds[name] = rest
                assert (word, name) == ("TYPE", last)
                assert (rest == "counter") == name.endswith("_total")
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        assert match[1] == last
        assert (match[1], match[2] or "") not in found
        found[match[1], match[2] or ""] = float(match[3])
    assert text.endswith("\n")
    return found


def test_the_page_has_what_the_run_knows() -> None:
    busy = (Busy(track="a/t", task="attack cnn uap", seconds=12.4),)
    own = state(running=busy, host='a "host"\\\n')
    found = parsed("".join(f"{line}\n" for line in lines_of(own)))
    values = {
        ("harness_run_cells", 'track="a/t"'): 5000,
        ("harness_run_cells", 'track="b/u"'): 42,
        ("harness_run_cells_finished", 'track="a/t"'): 1200,
        ("harness_run_cells_running", 'track="a/t"'): 1,
        ("harness_run_cells_running", 'track="b/u"'): 0,
        ("harness_run_cells_done_total", ""): 1201,
        ("harness_run_cells_failed_total", ""): 2,
        ("harness_run_left_seconds", ""): 1260,
    }
    assert {place: found[place] for place in values} == values
    assert found["harness_run_updated_time_seconds", ""] - found["harness_run_start_time_seconds", ""] == 754
    (about,) = [labels for name, labels in found if name == "harness_run_info"]
    assert r'host="a \"host\"\\\n"' in about
    bound = parsed("".join(f"{line}\n" for line in lines_of(state(at_least=True))))
    assert bound["harness_run_left_at_least_seconds", ""] == 1260
    assert ("harness_run_left_seconds", "") not in bound
    assert not any(
        name == "harness_run_left_seconds" for name, _ in parsed("\n".join(lines_of(state(left_s=None))) + "\n")
    )


def test_a_run_serves_its_state_to_this_machine_while_it_goes_on(tmp_path: Path) -> None:
    store, own, metrics = Store(tmp_path), graph(), Metrics("0")
    metrics.every_s = 0.0
    assert metrics._server.server_address[0] == "127.0.0.1"
    address, seen = f"http://127.0.0.1:{metrics.port}", list[float]()

    class Asking(Storing):
        def reports(self, seconds: float):
            with urllib.request.urlopen(f"{address}/metrics", timeout=120) as answer:
                assert answer.headers["Content-Type"] == CONTENT
                text = answer.read().decode()
            seen.append(parsed(text)["harness_run_cells_finished", 'track="a/t"'])
            yield from super().reports(seconds)

    with RunWatch([own], store, Nothing(), Times("cpu"), others=[metrics]) as watch:
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{address}/", timeout=120)
        execute([own], store, lambda: Asking(store), order=watch.order, watch=watch.watch)
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0, 9)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{address}/metrics", timeout=120)


@pytest.mark.parametrize("place", ["no", "99999", "1.2.3.4:", "a b:80"])
def test_what_is_no_place_is_refused(place: str) -> None:
    with pytest.raises(UsageError, match="neither a port nor HOST:PORT"):
        Metrics(place)


def test_a_port_that_is_taken_is_named() -> None:
    first = Metrics("0")
    with pytest.raises(UsageError, match=f"cannot listen on {first.port}: Address already in use"):
        Metrics(str(first.port))
    first.close()
