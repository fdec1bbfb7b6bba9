"""What a line of the ledger may be named: a submission, or an installed component that was computed again."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from imharness_submissions.ledger import Ledger


def test_a_line_may_name_an_installed_component_but_never_a_folder_of_it(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.append("harness/mse", ("harness/mse",), "reproduced", "2 of 2 cells")
    assert [line.name for line in ledger.lines()] == ["harness/mse"]
    for name, manifest in (("../../x", None), ("harness/../x", None), ("harness/mse", {"package": {}})):
        with pytest.raises(ValidationError):
            ledger.append(name, ("a/x",), "added", "for a test", manifest=manifest)
