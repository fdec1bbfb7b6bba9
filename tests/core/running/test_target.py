"""The target: gradients of plain autograd whatever the micro-batch; queries counted; memory bounded."""

from pathlib import Path
from typing import ClassVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from imharness.contracts.randomness import ImageRng, derive_seed, generator
from imharness.errors import ContractError, QueryBudgetExceeded
from imharness.running import numerics
from imharness.running.numerics import fresh_numerics
from imharness.running.target import MetricTarget, storable, straight_through


def network() -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.random.manual_seed(0)
        layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.LazyLinear(1)
        )
        layers(torch.zeros(1, 3, 6, 6))
    return layers.requires_grad_(False)


NETWORK = network()


def score(images: torch.Tensor) -> torch.Tensor:
    return NETWORK(images).flatten()


def blurred(images: torch.Tensor, rng: ImageRng) -> torch.Tensor:
    return torch.nn.functional.avg_pool2d(images, 3, 1, 1) + 0.1 * rng.normal(*images.shape[1:])


def target(n: int, **settings) -> MetricTarget:
    return MetricTarget(score, (-1.0, 2.0), images=n, **{"differentiable": True, **settings})


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 5),
    copies=st.integers(1, 3),
    micro_batch=st.integers(1, 16),
    sign=st.sampled_from([1, -1]),
    samples=st.integers(1, 3),
    adaptive=st.booleans(),
)
def test_gradients_are_those_of_plain_autograd(n, copies, micro_batch, sign, samples, adaptive) -> None:
    images = storable(torch.rand(n * copies, 3, 6, 6, generator=generator(n)))
    weights = torch.rand(n * copies, generator=generator(7))
    seeds = list(range(n))

    def plain(x: torch.Tensor) -> torch.Tensor:
        if not adaptive:
            return sign * score(x)
        roots = ImageRng(seeds).integers(0, 2**62).tolist()
        scores = []
        for i in range(len(x)):  # slow and independent: one image at a time, with streams of its own for each draw
            streams = [ImageRng([derive_seed(roots[i // copies], 0, i % copies, k)]) for k in range(samples)]
            scores.append(torch.stack([score(blurred(x[i : i + 1], one)) for one in streams]).mean(dim=0))
        return sign * torch.cat(scores)

    expected_leaf = images.clone().requires_grad_(True)
    expected = plain(expected_leaf)
    (expected_gradient,) = torch.autograd.grad((weights * expected).sum(), expected_leaf)

    purify = {"purify": blurred, "rng": ImageRng(seeds), "samples": samples} if adaptive else {}
    leaf = images.clone().requires_grad_(True)
    scores = target(n, sign=sign, micro_batch=micro_batch, **purify)(leaf)
    (gradient,) = torch.autograd.grad((weights * scores).sum(), leaf)
    torch.testing.assert_close(scores, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-5, atol=1e-6)


def test_a_black_box_target_gives_no_gradient() -> None:
    leaf = torch.rand(2, 3, 6, 6).requires_grad_(True)
    assert not target(2, differentiable=False)(leaf).requires_grad


def test_a_lower_is_better_metric_is_negated_with_its_bounds() -> None:
    images = storable(torch.rand(2, 3, 6, 6))
    negated = target(2, sign=-1)
    assert (negated.lower, negated.upper) == (-2.0, 1.0)
    torch.testing.assert_close(negated(images), -score(images))


def test_queries_are_counted_and_the_budget_holds() -> None:
    images = storable(torch.rand(2, 3, 6, 6))
    query_target = target(2, budget=4)
    query_target(images)
    query_target(images.repeat_interleave(3, dim=0))
    assert query_target.queries.tolist() == [4, 4]
    with pytest.raises(QueryBudgetExceeded, match="asked for 5 scores per image; its budget is 4"):
        query_target(images)
    assert query_target.queries.tolist() == [4, 4]


@pytest.mark.parametrize(("candidates", "gradient"), [(1, False), (3, False), (1, True)])
def test_each_draw_of_a_random_defense_is_a_query_and_the_budget_is_that_of_the_scores(candidates, gradient) -> None:
    candidate_images = torch.rand(2 * candidates, 3, 6, 6).requires_grad_(gradient)
    seen = 0

    def counting(images: torch.Tensor) -> torch.Tensor:
        nonlocal seen
        seen += len(images)
        return score(images)

    settings = {"differentiable": True, "purify": blurred, "rng": ImageRng([1, 2]), "samples": 10, "budget": 3}
    window = MetricTarget(counting, (-1.0, 2.0), images=2, **settings)
    window(candidate_images)
    assert window.queries.tolist() == [seen // 2] * 2 == [10 * len(candidate_images) // 2] * 2


def test_a_wrong_count_is_an_error() -> None:
    with pytest.raises(ContractError, match="expected that many or a multiple"):
        target(2)(torch.rand(3, 3, 6, 6))


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: not enough memory")])
def test_the_batch_is_halved_when_memory_runs_out(error: Exception) -> None:
    sizes = []

    def hungry(images: torch.Tensor) -> torch.Tensor:
        sizes.append(len(images))
        if len(images) > 2:
            raise error
        return score(images)

    images = storable(torch.rand(7, 3, 6, 6))
    scores = MetricTarget(hungry, (0, 1), images=7, differentiable=False, micro_batch=7)(images)
    torch.testing.assert_close(scores, score(images))
    assert sizes == [7, 3, 1, 1, 1, 1, 1, 1, 1]


def test_other_errors_pass() -> None:
    def broken(images: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("shapes do not fit")

    with pytest.raises(RuntimeError, match="do not fit"):
        MetricTarget(broken, (0, 1), images=2, differentiable=False)(torch.rand(2, 3, 6, 6))


@pytest.mark.parametrize(
    ("precision", "differentiable", "exact"),
    [("strict", True, True), ("fast", True, False), ("fast", False, True), ("search", False, False)],
)
def test_reduced_precision_is_for_gradients_and_when_asked_for_searches(
    precision: str, differentiable: bool, exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imharness.running.target.multiplies_bfloat16", lambda device_type: True)
    images = storable(torch.rand(2, 3, 6, 6, generator=generator(5)))
    window = target(2, precision=precision, differentiable=differentiable)
    scores, expected = window(images), score(images)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, expected, rtol=0.05, atol=0.05)
    assert torch.equal(scores, expected) == exact
    if differentiable:
        _, gradient = window.with_gradient(images)
        _, plain = target(2).with_gradient(images)
        assert gradient.dtype == torch.float32
        cosine = torch.nn.functional.cosine_similarity(gradient.flatten(1), plain.flatten(1))
        assert (cosine > 0.99).all()


@pytest.mark.parametrize("flags", ["fpu avx2 fma avx512_bf16", "Features : fp asimd bf16", "fpu avx2 avx512bw", ""])
def test_a_processor_without_instructions_for_bfloat16_computes_in_float32(
    flags: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """There bfloat16 would take several times as long as float32."""
    facts = tmp_path / "cpuinfo"
    if flags:
        facts.write_text(f"processor : 0\nflags : {flags}\n")
    monkeypatch.setattr(numerics, "CPU_FACTS", facts)
    numerics.multiplies_bfloat16.cache_clear()
    try:
        images = storable(torch.rand(2, 3, 6, 6, generator=generator(5)))
        _, gradient = target(2, precision="fast").with_gradient(images)
        assert torch.equal(gradient, target(2).with_gradient(images)[1]) == ("bf16" not in flags)
    finally:
        numerics.multiplies_bfloat16.cache_clear()


class Seen(torch.autograd.Function):
    """Records whether factors may be rounded (TF32), in the forward and in the backward pass."""

    notes: ClassVar[list[bool]] = []

    @staticmethod
    def forward(ctx, x: torch.Tensor) -> torch.Tensor:
        Seen.notes.append(torch.backends.cudnn.allow_tf32)
        return x.clone()

    @staticmethod
    def backward(ctx, slope: torch.Tensor) -> torch.Tensor:
        Seen.notes.append(torch.backends.cudnn.allow_tf32)
        return slope


@pytest.mark.parametrize("precision", ["strict", "tf32"])
def test_a_search_may_round_factors_forward_and_back_and_nothing_else_does(precision: str) -> None:
    Seen.notes.clear()
    images = storable(torch.rand(2, 3, 6, 6, generator=generator(5)))
    window = MetricTarget(lambda x: score(Seen.apply(x)), (0, 1), images=2, differentiable=True, precision=precision)
    with fresh_numerics():
        scores, gradient = window.with_gradient(images)
        window(images)
        assert not torch.backends.cudnn.allow_tf32
        assert torch.get_float32_matmul_precision() == "highest"
    assert Seen.notes == [precision == "tf32"] * 3
    plain, slope = target(2).with_gradient(images)
    assert torch.equal(scores, plain), "a CPU takes no notice"
    assert torch.equal(gradient, slope)


def rounded(images: torch.Tensor, rng: ImageRng) -> torch.Tensor:
    return (4 * images).round() / 4


def noisy(images: torch.Tensor, rng: ImageRng) -> torch.Tensor:
    return (images + 0.1 * rng.normal(*images.shape[1:])).square()


def halved(images: torch.Tensor, rng: ImageRng) -> torch.Tensor:
    return rounded(images, rng)[:, :, ::2, ::2]


def slopes(purify, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    leaf = images.clone().requires_grad_(True)
    purified = purify(leaf, ImageRng([1, 2]))
    weights = torch.rand(purified.shape, generator=generator(3))
    return purified, torch.autograd.grad((weights * purified).sum(), leaf, allow_unused=True)[0]


def test_a_defense_without_a_gradient_keeps_its_result_and_gets_that_of_the_identity() -> None:
    images = storable(torch.rand(2, 3, 6, 6, generator=generator(0)))
    result, gradient = slopes(straight_through(rounded), images)
    assert torch.equal(result, rounded(images, ImageRng([1, 2])))
    torch.testing.assert_close(gradient, torch.rand(result.shape, generator=generator(3)))
    assert not slopes(rounded, images)[1].any()


def test_a_stand_in_that_is_the_defense_itself_gives_its_exact_gradient_also_where_both_draw() -> None:
    images = storable(torch.rand(2, 3, 6, 6, generator=generator(0)))
    for expected, result in zip(slopes(noisy, images), slopes(straight_through(noisy, noisy), images), strict=True):
        torch.testing.assert_close(result, expected)


def test_a_gradient_reaches_through_a_change_of_size() -> None:
    images = storable(torch.rand(2, 3, 6, 6, generator=generator(0)))
    result, gradient = slopes(straight_through(halved), images)
    assert result.shape == (2, 3, 3, 3)
    assert bool((gradient > 0).all())
    torch.testing.assert_close(gradient.sum(), torch.rand(result.shape, generator=generator(3)).sum())


def test_halving_for_want_of_memory_changes_no_score() -> None:
    """The streams of a chunk that did not fit have been drawn from already; its halves draw the same numbers again."""
    images = storable(torch.rand(4, 3, 6, 6, generator=generator(1)))

    def scores(most: int) -> torch.Tensor:
        def tight(x: torch.Tensor) -> torch.Tensor:
            if len(x) > most:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return score(x)

        return MetricTarget(
            tight, (-1.0, 2.0), images=4, differentiable=True, purify=blurred, rng=ImageRng(range(4)), micro_batch=4
        )(images)

    whole = scores(4).tolist()
    assert scores(1).tolist() == pytest.approx(whole, abs=1e-6)
    assert scores(2).tolist() == pytest.approx(whole, abs=1e-6)


def test_a_search_looks_like_results_that_are_kept() -> None:
    """The defense sees 8-bit images, each once in a call, and fresh streams, whatever images the attack asks about."""
    seen: list[torch.Tensor] = []

    def looking(images: torch.Tensor, rng: ImageRng) -> torch.Tensor:
        seen.append(images.detach())
        assert len(images) == 3
        assert images.is_contiguous()
        assert all(torch.equal(s.get_state(), generator(s.initial_seed()).get_state()) for s in rng._streams)
        return images + 0.01 * rng.normal(*images.shape[1:])

    window = target(3, purify=looking, rng=ImageRng(range(3)), samples=2)
    window((2 * torch.rand(6, 3, 6, 6) - 0.5).to(memory_format=torch.channels_last))
    window(torch.rand(3, 3, 6, 6).requires_grad_(True)).sum().backward()
    assert len(seen) == 6
    for images in seen:
        assert torch.equal(images, images.mul(255).round().byte().float() / 255)


def distance(images: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Return the sum of the squared differences of the 108 values (3 x 6 x 6) of each image."""
    assert images.shape == reference.shape
    assert ((images - reference).abs() <= 3.5 / 255).all(), "an image meets the reference of another one"
    return (images - reference).square().sum(dim=(1, 2, 3))


def comparing(n: int, **settings) -> tuple[torch.Tensor, MetricTarget]:
    reference = storable(torch.linspace(0.1, 0.9, n).view(-1, 1, 1, 1).expand(-1, 3, 6, 6))
    arguments = {"differentiable": True, "images": n, "reference": reference, **settings}
    return reference, MetricTarget(distance, (0.0, 1.0), **arguments)


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("micro_batch", [1, 2, 64])
@pytest.mark.parametrize("adaptive", [False, True])
def test_every_candidate_meets_the_reference_of_its_image(copies: int, micro_batch: int, adaptive: bool) -> None:
    guard = {"purify": lambda x, rng: x + 0, "rng": ImageRng(range(4)), "samples": 2} if adaptive else {}
    reference, window = comparing(4, micro_batch=micro_batch, **guard)
    changes = torch.arange(4 * copies).remainder(3).add(1).view(-1, 1, 1, 1) / 255
    candidates = reference.repeat_interleave(copies, dim=0) + changes
    leaf = candidates.clone().requires_grad_(True)
    scores = window(leaf)
    (gradient,) = torch.autograd.grad(scores.sum(), leaf)
    torch.testing.assert_close(scores, 108 * changes.flatten().square(), rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(gradient, 2 * changes.expand_as(gradient), rtol=1e-3, atol=1e-6)


def test_training_says_which_image_it_asks_about_in_any_order_and_number() -> None:
    reference, window = comparing(5, images=1, training=True, micro_batch=2)
    rows = torch.tensor([3, 0, 3, 4])
    torch.testing.assert_close(window(reference[rows] + 2 / 255, rows), torch.full((4,), 108 * (2 / 255) ** 2))
    for wrong in (None, torch.tensor([0]), torch.tensor([0.0, 1, 2, 3]), torch.tensor([True] * 4)):
        with pytest.raises(ContractError, match=r"target\(images, rows\)"):
            window(reference[rows], wrong)
    for outside in (-1, 5):
        with pytest.raises(ContractError, match="there are 5 training images"):
            window(reference[rows], torch.tensor([0, 1, 2, outside]))
    _, plain = comparing(5)
    with pytest.raises(ContractError, match="in their order"):
        plain(reference, torch.arange(5))


def test_an_image_that_equals_its_reference_has_its_own_score_and_the_gradient_of_one_beside_it() -> None:
    reference, window = comparing(3)
    images = reference.clone()
    images[1] += 1 / 255
    leaf = storable(images).requires_grad_(True)
    scores = window(leaf)
    (gradient,) = torch.autograd.grad(scores.sum(), leaf)
    torch.testing.assert_close(scores, torch.tensor([0, 108 / 255**2, 0]), rtol=1e-3, atol=1e-9)
    torch.testing.assert_close(gradient.abs(), torch.full_like(gradient, 2 / 255), rtol=1e-3, atol=1e-7)
    assert (gradient[1] > 0).all()
    assert torch.equal(gradient[0].sign(), gradient[2].sign())
    alone = MetricTarget(distance, (0.0, 1.0), images=1, differentiable=True, reference=reference[2:])
    single = reference[2:].clone().requires_grad_(True)
    assert torch.equal(torch.autograd.grad(alone(single).sum(), single)[0][0], gradient[2])


def test_a_result_of_another_size_is_resized_to_its_reference() -> None:
    reference, window = comparing(2, purify=lambda x, rng: x[:, :, :4, :4], rng=ImageRng(range(2)))
    torch.testing.assert_close(window(reference + 2 / 255), torch.full((2,), 108 * (2 / 255) ** 2), rtol=1e-2, atol=0)


def test_gradients_lie_in_the_order_of_the_images_whatever_chunks_they_were_computed_in() -> None:
    """Each gradient is dense and its own, so that an attack may change it, and no copy of a constant one is shared."""
    images = torch.rand(6, 3, 4, 5, generator=generator(1))
    weights = torch.rand(3, 4, 5, generator=generator(2))

    def weighted(batch: torch.Tensor) -> torch.Tensor:
        return (batch * weights).flatten(1).sum(dim=1) ** 2

    exact = (images * 255).round() / 255
    sums = (exact * weights).flatten(1).sum(dim=1)
    for micro_batch in (1, 2, 4, 64):
        whole = MetricTarget(weighted, (0, 1), images=2, differentiable=True, micro_batch=micro_batch)
        scores, gradient = whole.with_gradient(images)
        torch.testing.assert_close(scores, sums**2)
        torch.testing.assert_close(gradient, 2 * sums[:, None, None, None] * weights)
    flat = MetricTarget(lambda batch: batch.flatten(1).sum(dim=1), (0, 1), images=6, differentiable=True)
    _, gradient = flat.with_gradient(images)
    gradient[0] = 0
    assert gradient.is_contiguous()
    assert gradient.flatten(1).sum(dim=1).tolist() == [0, *[60] * 5]
