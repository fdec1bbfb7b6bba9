"""Gradients of a classifier's loss, one per image or batch, differentiable with respect to the images."""

from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.func import functional_call, grad, vmap
from torch.nn.modules.batchnorm import _NormBase

from imharness.gradients import Gradients
from imharness_reconstruction.output_layer import output_layer

BLOCK = 8
"""If the number of input channels is a multiple of this, a CPU is faster with a grouped convolution (`_WeightGradient`)
than with products with patches (`_PatchGradient`).

A GPU computes grouped convolutions slowly: with them, a step of an inversion of 32 images on ResNet-20 takes 53 ms on
an H100, although its operations take less than 1 ms.
"""
SMALL = 1e-3
"""In `_agree`, gradients of a parameter are compared relative to their length, or to this share of the length of the
whole gradient if that is larger."""
NARROW = 8
"""If a row of the output has fewer patches, a CPU copies them faster by `F.unfold`."""
Pair = tuple[int, ...]
Way = Callable[[nn.Module, torch.Tensor, torch.Tensor], Gradients]
"""A function (network, images, targets) -> gradients: one way to compute them."""
_trusted: WeakKeyDictionary[nn.Module, Way] = WeakKeyDictionary()
"""Network -> the first way to compute its gradients that agreed with autograd on two images."""


def image_gradients(model: nn.Module, images: torch.Tensor, targets: torch.Tensor) -> Gradients:
    """Return the gradient of the cross-entropy of each image alone: parameter name -> ``(N, *shape)``.

    There are three ways. The fastest one that agrees with the last one on two images is used:

    1. If all parameters belong to convolutions, linear layers and batch norms in evaluation mode, one pass over the
       batch gives the gradients at the layers' outputs. Their products with the layers' inputs are the gradients of the
       parameters (Goodfellow, "Efficient per-example gradient computations", 2015). This is wrong if the network uses
       its parameters elsewhere, too.
    2. `vmap`.
    3. Autograd, image by image.

    `targets`: int64 ``(N,)`` labels or float ``(N, classes)`` probabilities.
    """
    return gradients_and_inputs(model, images, targets, None)[0]


def gradients_and_inputs(
    model: nn.Module, images: torch.Tensor, targets: torch.Tensor, layer: nn.Module | None
) -> tuple[Gradients, torch.Tensor]:
    """Return the gradients of `image_gradients`, and the input ``(N, ...)`` of `layer`, or the images if it is None."""
    way = _way(model, images, targets)
    if way is _by_layers:
        return _passed(model, images, targets, layer)
    entered = images if layer is None else _entering(model, images, layer)
    return way(model, images, targets), entered


def _way(model: nn.Module, images: torch.Tensor, targets: torch.Tensor) -> Way:
    """Return the fastest way to this network's gradients that agrees with autograd.

    They are compared on a batch of two images, the first image and its negative, because images of a batch may change
    each other's gradients.
    """
    ways = [way for way, fits in ((_by_layers, _all_supported), (_mapped, vmap_keeps_slopes)) if fits(model)]
    if (way := _trusted.get(model)) in (*ways, _by_autograd):
        return way
    first = images[:1].detach()
    image, target = torch.cat([first, 1 - first]), targets[:1].repeat_interleave(2, dim=0)
    plain = _by_autograd(model, image, target)
    for faster in ways:
        try:
            agrees = _agree(faster(model, image, target), plain)
        except RuntimeError:  # of torch, about operations that have no batched form
            agrees = False
        if agrees:
            _trusted[model] = faster
            return faster
    _trusted[model] = _by_autograd
    return _by_autograd


def _agree(gradients: Gradients, plain: Gradients) -> bool:
    """Return whether two sets of gradients differ by rounding only, parameter by parameter."""
    whole = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(values) for values in plain.values()]))
    return all(
        bool(
            torch.linalg.vector_norm(gradients[name] - values)
            <= torch.finfo(values.dtype).eps ** 0.5 * torch.linalg.vector_norm(values).clamp(min=float(SMALL * whole))
        )
        for name, values in plain.items()
    )


def _by_layers(model: nn.Module, images: torch.Tensor, targets: torch.Tensor) -> Gradients:
    """Return the gradients by one pass over the batch."""
    return _passed(model, images, targets, None)[0]


def _passed(
    model: nn.Module, images: torch.Tensor, targets: torch.Tensor, layer: nn.Module | None
) -> tuple[Gradients, torch.Tensor]:
    """Return gradients, and the input of a layer, by one pass over the batch; all layers must be `_is_supported`."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    layers = _layers(model)
    passes: list[tuple[nn.Module, torch.Tensor, torch.Tensor]] = []

    def seen(layer: nn.Module, inputs: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
        passes.append((layer, inputs[0], output))
        return output.clone()  # in-place operations change the copy

    x = images if images.requires_grad else images.detach().requires_grad_(True)
    hooks = [module.register_forward_hook(seen) for module in layers]
    try:
        with torch.enable_grad():
            frozen = not any(parameter.requires_grad for parameter in model.parameters())
            logits = model(x) if frozen else functional_call(model, _detached(model), (x,))
            loss = F.cross_entropy(logits, targets, reduction="sum")
    finally:
        for hook in hooks:
            hook.remove()
    entered = next((inputs for module, inputs, _ in passes if module is layer), images)
    slopes = torch.autograd.grad(loss, [output for _, _, output in passes], create_graph=images.requires_grad)
    gradients: dict[str, torch.Tensor] = {}
    for (passed_layer, inputs, _), slope in zip(passes, slopes, strict=True):
        for parameter_name, values in _parameter_gradients(passed_layer, inputs, slope).items():
            # tied layers share a parameter, whose gradients add up
            name = names[id(passed_layer._parameters[parameter_name])]
            gradients[name] = gradients[name] + values if name in gradients else values
    of_all = {
        name: gradients[name] if name in gradients else images.new_zeros(len(images), *parameter.shape)
        for name, parameter in model.named_parameters()
    }
    if not images.requires_grad:
        of_all = {name: values.detach() for name, values in of_all.items()}
    return of_all, entered


def _entering(model: nn.Module, images: torch.Tensor, layer: nn.Module) -> torch.Tensor:
    """Return the input of a layer when images pass the network."""
    captured: list[torch.Tensor] = []
    hook = layer.register_forward_pre_hook(lambda layer, inputs: captured.append(inputs[0]))
    try:
        model(images)
    finally:
        hook.remove()
    return captured[0]


def _layers(model: nn.Module) -> list[nn.Module]:
    """Return the layers that have parameters of their own."""
    return [module for module in model.modules() if list(module.parameters(recurse=False))]


def vmap_keeps_slopes(model: nn.Module) -> bool:
    """Return whether the gradients that `vmap` gives can be differentiated once more.

    Under `vmap`, torch treats the mean and the variance that layer norm, instance norm, or batch norm in training mode
    compute as constants, so that second derivatives are wrong.
    """
    return not any(
        isinstance(layer, nn.LayerNorm)
        or (isinstance(layer, _NormBase) and (layer.training or layer.running_mean is None))
        for layer in model.modules()
    )


def _all_supported(model: nn.Module) -> bool:
    return all(_is_supported(layer) for layer in _layers(model))


def _is_supported(layer: nn.Module) -> bool:
    """Return whether `_parameter_gradients` knows the layer."""
    if isinstance(layer, nn.BatchNorm2d):
        return not layer.training and layer.running_mean is not None
    if isinstance(layer, nn.Conv2d):
        return layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    return type(layer) is nn.Linear


def _parameter_gradients(layer: nn.Module, entered: torch.Tensor, slope: torch.Tensor) -> Gradients:
    """Return the gradients of a layer's parameters, ``(N, *shape)``.

    `entered`: the input ``(N, ...)``; `slope`: the gradient of the loss with respect to the output ``(N, ...)``.
    """
    in_blocks = entered.device.type == "cpu" and isinstance(layer, nn.Conv2d) and layer.in_channels % BLOCK == 0
    if isinstance(layer, nn.Conv2d) and layer.groups == 1 and in_blocks:
        weight, bias = _WeightGradient.apply(entered, slope, layer), slope.sum(dim=(2, 3))
    elif isinstance(layer, nn.Conv2d) and layer.groups == 1:
        weight, bias = _PatchGradient.apply(entered, slope, layer), slope.sum(dim=(2, 3))
    elif isinstance(layer, nn.Conv2d):
        flat = slope.flatten(2)
        columns = F.unfold(entered, layer.kernel_size, layer.dilation, layer.padding, layer.stride)
        slope_groups, column_groups = (x.unflatten(1, (layer.groups, -1)) for x in (flat, columns))
        weight = (slope_groups @ column_groups.transpose(2, 3)).view(len(entered), *layer.weight.shape)
        bias = flat.sum(dim=2)
    elif isinstance(layer, nn.BatchNorm2d):
        mean, deviation = layer.running_mean, (layer.running_var + layer.eps).sqrt()
        weight = (slope * ((entered - mean[:, None, None]) / deviation[:, None, None])).sum(dim=(2, 3))
        bias = slope.sum(dim=(2, 3))
    else:
        rows, outs = (
            entered.reshape(len(entered), -1, entered.shape[-1]),
            slope.reshape(len(slope), -1, slope.shape[-1]),
        )
        weight, bias = outs.transpose(1, 2) @ rows, outs.sum(dim=1)
    return {"weight": weight} if layer.bias is None else {"weight": weight, "bias": bias}


class _WeightGradient(torch.autograd.Function):
    """The weight gradients of a convolution, one per image, computed by one convolution with a group per image.

    Its own gradients are grouped convolutions too, so that no patches are copied in either direction.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, entered: torch.Tensor, slope: torch.Tensor, layer: nn.Conv2d) -> torch.Tensor:
        inputs, slopes = (x.reshape(1, -1, *x.shape[2:]) for x in (entered, slope))
        ctx.save_for_backward(inputs, slopes)
        ctx.layer, ctx.shapes = layer, (entered.shape, slope.shape)
        weight = layer.weight.new_empty(()).expand(len(entered) * layer.out_channels, *layer.weight.shape[1:])
        gradient = _backward(slopes, inputs, weight, layer, len(entered), [False, True, False])[1]
        return gradient.view(len(entered), *layer.weight.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, upstream: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        (inputs, slopes), layer, count = ctx.saved_tensors, ctx.layer, len(upstream)
        kernels = upstream.flatten(0, 1)
        of_slope = F.conv2d(inputs, kernels, None, layer.stride, layer.padding, layer.dilation, count)
        of_input = _backward(slopes, inputs, kernels, layer, count, [True, False, False])[0]
        return of_input.view(ctx.shapes[0]), of_slope.view(ctx.shapes[1]), None


class _PatchGradient(torch.autograd.Function):
    """The weight gradients of a convolution, one per image, as products with patches that are copied only once."""

    @staticmethod
    def forward(ctx: FunctionCtx, entered: torch.Tensor, slope: torch.Tensor, layer: nn.Conv2d) -> torch.Tensor:
        window = (layer.kernel_size, layer.dilation, layer.padding, layer.stride)
        patches, flat = _patches(entered, *window), slope.flatten(2)
        ctx.save_for_backward(patches, flat)
        ctx.window, ctx.sides, ctx.shape = window, entered.shape[2:], slope.shape
        return (flat @ patches.transpose(1, 2)).view(len(entered), *layer.weight.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, upstream: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        (patches, flat), kernels = ctx.saved_tensors, upstream.flatten(2)
        of_input = F.fold(kernels.transpose(1, 2) @ flat, ctx.sides, *ctx.window)
        return of_input, (kernels @ patches).view(ctx.shape), None


def _patches(images: torch.Tensor, kernel: Pair, dilation: Pair, padding: Pair, stride: Pair) -> torch.Tensor:
    """Return the result of `F.unfold`, ``(N, C * kernel, patches)``, by one strided copy where that is faster."""
    (top, side), sizes = padding, zip(images.shape[2:], kernel, dilation, padding, stride, strict=True)
    height, width = ((length + 2 * p - d * (k - 1) - 1) // s + 1 for length, k, d, p, s in sizes)
    if images.device.type == "cpu" and width < NARROW:
        return F.unfold(images, kernel, dilation, padding, stride)
    bordered = F.pad(images, (side, side, top, top)) if any(padding) else images
    *outer, down, across = bordered.stride()
    strides = (*outer, dilation[0] * down, dilation[1] * across, stride[0] * down, stride[1] * across)
    patches = bordered.as_strided((*images.shape[:2], *kernel, height, width), strides)
    return patches.reshape(len(images), -1, height * width)


def _backward(
    slopes: torch.Tensor, inputs: torch.Tensor, kernels: torch.Tensor, layer: nn.Conv2d, groups: int, which: list[bool]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of a grouped convolution by its input, kernels and bias; `which` says which are computed."""
    stride, padding, dilation = list(layer.stride), list(layer.padding), list(layer.dilation)
    return torch.ops.aten.convolution_backward(
        slopes, inputs, kernels, None, stride, padding, dilation, False, [0, 0], groups, which
    )


def _detached(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def _mapped(model: nn.Module, images: torch.Tensor, targets: torch.Tensor) -> Gradients:
    """Return the gradients of all images at once, by `vmap`."""

    def loss(weights: dict[str, torch.Tensor], image: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        logits = functional_call(model, weights, (image[None],))
        return F.cross_entropy(logits, target[None])

    return vmap(grad(loss), in_dims=(None, 0, 0))(_detached(model), images, targets)


def _by_autograd(model: nn.Module, images: torch.Tensor, targets: torch.Tensor) -> Gradients:
    """Return the gradients image by image; the other ways must agree with them."""
    weights = {name: values.requires_grad_(True) for name, values in _detached(model).items()}
    rows = []
    for image, target in zip(images.split(1), targets.split(1), strict=True):
        with torch.enable_grad():
            loss = F.cross_entropy(functional_call(model, weights, (image,)), target)
        rows.append(
            torch.autograd.grad(
                loss,
                list(weights.values()),
                create_graph=images.requires_grad,
                allow_unused=True,
                materialize_grads=True,
            )
        )
    return {name: torch.stack(values) for name, values in zip(weights, zip(*rows, strict=True), strict=True)}


def batch_weights(batches: Sequence[Sequence[int]], images: int) -> torch.Tensor:
    """Return ``(T, images)``: row t holds 1 / size at the images of batch t and 0 elsewhere."""
    weights = torch.zeros(len(batches), images)
    for number, rows in enumerate(batches):
        weights[number, list(rows)] = 1 / len(rows)
    return weights


def averaged(gradients: Gradients, weights: torch.Tensor) -> Gradients:
    """Return the mean gradients of batches ``(T, *shape)`` from those of images ``(N, *shape)``, by `batch_weights`."""
    return {name: torch.einsum("tn,n...->t...", weights, values) for name, values in gradients.items()}


def labels_from_gradients(gradients: Gradients, model: nn.Module, shape: tuple[int, int, int]) -> torch.Tensor:
    """Return the class whose bias in the output layer has the most negative gradient, int64 ``(N,)``.

    Exact for one image and cross-entropy (Zhao et al., iDLG, 2020, section 3): softmax minus one-hot is negative at the
    true class only. `shape`: of an image. Raises `UsageError` where the gradient of that bias is not there.
    """
    return output_layer(model, shape).slope(gradients).argmin(dim=1)
