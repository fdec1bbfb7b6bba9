"""`harness doctor` shows what packages find out about a machine, and names a check that cannot be used."""

import json
from pathlib import Path


def test_a_check_from_outside_is_shown_and_one_that_raises_is_named(harness_forked, tmp_path: Path) -> None:
    facts = tmp_path / "site-packages" / "acme_raising_check-1.0.dist-info"
    found = harness_forked("doctor", "--json", cwd=tmp_path, packages=("acme-hooks",))
    assert found.returncode == 0, found.stderr
    told = json.loads(found.stdout)
    assert told["acme licence"] == "none"
    assert {"harness", "sandbox", "missing_assets"} <= set(told)
    assert told["left_out"] == {}
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-raising-check\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[imharness]\nraising.doctor = acme_raising_check\n")
    text = "from imharness.tracks import hookimpl\n\n\n@hookimpl\ndef doctor():\n    raise ValueError('no\\nkey')\n"
    (facts.parent / "acme_raising_check.py").write_text(text)
    told = json.loads(harness_forked("doctor", "--json", cwd=tmp_path, packages=("acme-hooks",)).stdout)
    assert told["acme licence"] == "none"
    assert told["left_out"] == {"acme-raising-check:acme_raising_check": "doctor() raised ValueError: no key"}
