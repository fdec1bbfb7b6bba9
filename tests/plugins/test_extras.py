"""What an installation without extras says when something needs one."""

import sys

import pytest
from click.testing import CliRunner

from imharness.cli import cli
from imharness.contracts.component import Component
from imharness.errors import Unavailable
from imharness_iqa.defenses.mprnet import MprNet
from imharness_iqa.defenses.real_esrgan import RealEsrgan
from imharness_iqa.metrics.pyiqa_metrics import Maniqa


@pytest.mark.parametrize(
    ("component", "module", "extra"),
    [
        (RealEsrgan(), "spandrel", "restorers"),
        (MprNet(), "spandrel_extra_arches", "restorers"),
        (Maniqa(), "pyiqa", "pyiqa"),
    ],
)
def test_a_component_names_the_extra_it_needs(
    component: Component, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Unavailable) as caught:
        component.require()
    assert caught.value.remedy == f"pip install 'image-privacy-harness[{extra}]'"


@pytest.mark.parametrize("module", ["starlette", "uvicorn", "itsdangerous"])
def test_annotate_without_its_server_says_so_in_one_line(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    result = CliRunner().invoke(cli, ["annotate", "--kind", "class"])
    assert result.exit_code != 0
    assert result.output.splitlines() == [
        f"Error: harness annotate needs {module}; get it with: pip install 'image-privacy-harness[annotate]'"
    ]
