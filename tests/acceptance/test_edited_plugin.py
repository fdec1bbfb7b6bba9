"""A plugin whose code changes while its version stays the same is computed again, and never gives old numbers."""

import json
from pathlib import Path

from tests.acceptance.test_hard_times import SMALL
from tests.forking import WITHOUT_SITE

from imharness.results.store import Store

PACKAGE = "acme-median-smoothing"
MEDIAN = "median(dim=-1).values"


def test_an_edited_plugin_is_computed_again_and_a_restored_one_is_there(tmp_path: Path, harness_forked) -> None:
    text = SMALL.replace('"random-noise"]', '"median-smoothing"]').replace('attack = ["ifgsm", "uap"]', "attack = []")
    (tmp_path / "small.toml").write_text(text)
    words = ["run", "--all", "--profile", "small.toml", "--device", "cpu", "--workers", "1", "--json"]
    module = tmp_path / "site-packages" / "acme_median_smoothing.py"

    def run() -> tuple[int, int, dict[str, list[float]]]:
        """Return how many tasks there are, how many were there already, and the scores behind the defense."""
        result = harness_forked("-c", WITHOUT_SITE, *words, cwd=tmp_path, packages=(PACKAGE,))
        assert result.returncode == 0, result.stderr
        assert "is installed" not in result.stderr
        facts = json.loads(result.stdout)
        store = Store(tmp_path / "store")
        (sweep,) = store.sweeps("harness/iqa")
        keys = {address: key for address, key in sweep.tasks.items() if "=acme/median-smoothing" in address}
        rows = {address: store.rows(store.record(key)) for address, key in keys.items()}
        scores = {address: columns["score"].tolist() for address, columns in rows.items() if "score" in columns}
        assert scores
        return facts["tasks"], facts["reused"], scores

    tasks, reused, first = run()
    assert reused == 0
    assert run() == (tasks, tasks, first)
    source = module.read_text()
    module.write_text(source.replace(MEDIAN, "amin(dim=-1)"))
    ranked = harness_forked("results", "rank", cwd=tmp_path, packages=(PACKAGE,))
    assert "acme/median-smoothing: its results are of version 1+" in ranked.stderr
    _, reused, other = run()
    assert 0 < reused < tasks
    assert other != first
    module.write_text(source)
    assert run() == (tasks, tasks, first)
