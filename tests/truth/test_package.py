"""The components of the package `acme-truth` keep their tensors on the device that they are given."""

import importlib.util
from pathlib import Path

import pytest

from imharness.contracts.component import Component
from imharness.testing import trials

FILE = Path(__file__).parents[1] / "packages" / "acme-truth" / "acme_truth" / "__init__.py"
CHECK = "keeps every tensor on its device"
OWN_SIZE = {"light/lopsided", "acme/recogniser"}
"""Components that accept only images of the size of their data sets; trials have other sizes."""


def components() -> list[Component]:
    """Return the components for which there is a trial of the device."""
    spec = importlib.util.spec_from_file_location("acme_truth", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [
        component
        for component in module.components()
        if component.info.id not in OWN_SIZE and any(trial.check == CHECK for trial in trials(component))
    ]


@pytest.mark.parametrize("component", components(), ids=lambda component: component.label)
def test_every_tensor_stays_on_its_device(component: Component) -> None:
    (trial,) = [trial for trial in trials(component) if trial.check == CHECK]
    result = trial.run()
    if result.status == "skipped":
        pytest.skip(result.message)
    assert result.status == "passed", result.message
