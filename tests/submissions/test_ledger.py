"""A line of the ledger names a submission or an installed component; a store that is missing has no empty ledger."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from imharness.cli import cli
from imharness.errors import StoreError
from imharness_submissions.ledger import Ledger


def test_a_line_may_name_an_installed_component_but_never_a_folder_of_it(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.append("harness/mse", ("harness/mse",), "reproduced", "2 of 2 tasks")
    assert [line.name for line in ledger.lines()] == ["harness/mse"]
    for name, manifest in (("../../x", None), ("harness/../x", None), ("harness/mse", {"package": {}})):
        with pytest.raises(ValidationError):
            ledger.append(name, ("a/x",), "added", "for a test", manifest=manifest)


def test_a_store_that_is_not_there_has_no_empty_ledger(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["submissions", "ledger", "--store", str(tmp_path / "nowhere")])
    assert isinstance(result.exception, StoreError)
    assert "nowhere does not exist or is empty" in str(result.exception)
    assert not (tmp_path / "nowhere").exists()
    Ledger(tmp_path / "refused").append("own", ("own/x",), "refused", "for a test")
    ledger_result = CliRunner().invoke(cli, ["submissions", "ledger", "--store", str(tmp_path / "refused")])
    assert ledger_result.exit_code == 0, ledger_result.output
    assert "1 decision" in ledger_result.output
