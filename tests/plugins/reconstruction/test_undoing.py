"""Maps of coordinates are taken back, and what hides something is left as it is."""

import pytest
import torch

from imharness.components.registry import installed
from imharness.gradients import ImageRng
from imharness.testing.placement import MAC, acted_accelerator
from imharness_reconstruction.undoing import PROBES, undone

CPU = torch.device("cpu")


def drawn(count: int, seed: int) -> dict[str, torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    return {"a": torch.randn(count, 40, generator=rng), "b": 1e-4 * torch.randn(count, 5, 3, generator=rng)}


def test_factors_signs_and_constants_are_taken_back() -> None:
    shared, factor = drawn(3, 0), {name: values[0] * 2 + 3 for name, values in drawn(1, 2).items()}

    def protect(gradients: dict) -> dict:
        return {name: factor[name] * values - 0.5 * factor[name] for name, values in gradients.items()}

    recovered = undone(protect(shared), drawn(PROBES, 1), protect)
    for name, values in shared.items():
        torch.testing.assert_close(recovered[name], values, atol=2e-6, rtol=2e-3)


def test_a_coordinate_that_is_never_seen_gets_the_usual_factor() -> None:
    shared, plain = drawn(3, 0), drawn(PROBES, 1)
    plain["a"][:, 0] = 0
    recovered = undone({n: -7 * v for n, v in shared.items()}, plain, lambda g: {n: -7 * v for n, v in g.items()})
    torch.testing.assert_close(recovered["a"], shared["a"])


def test_maps_are_taken_back_on_the_gpu_of_a_mac_which_has_no_float64() -> None:
    with acted_accelerator(MAC):
        shared, plain = ({n: v.to(MAC) for n, v in drawn(*which).items()} for which in ((3, 0), (PROBES, 1)))
        recovered = undone({n: -7 * v for n, v in shared.items()}, plain, lambda g: {n: -7 * v for n, v in g.items()})
        assert {values.device for values in recovered.values()} == {MAC}
        back = {name: values.cpu() for name, values in recovered.items()}
    torch.testing.assert_close(back, drawn(3, 0))


@pytest.mark.parametrize(
    "label",
    ["harness/plain-gradient", "harness/gaussian-gradient", "harness/laplacian-gradient", "harness/gradient-pruning"],
)
def test_defenses_of_the_harness_are_no_such_maps(label: str) -> None:
    protect = installed().one("defense", label).build(CPU)
    shared = {name: 0.01 * values for name, values in drawn(3, 0).items()}
    recovered = undone(shared, drawn(PROBES, 1), lambda g: protect(g, ImageRng(list(range(PROBES)), CPU)))
    assert recovered is shared


def test_gradients_of_zeros_stay_zeros() -> None:
    zeros = {name: torch.zeros_like(values) for name, values in drawn(3, 0).items()}
    recovered = undone(
        zeros, drawn(PROBES, 1), lambda g: {name: torch.zeros_like(values) for name, values in g.items()}
    )
    for values in recovered.values():
        assert not values.any()
