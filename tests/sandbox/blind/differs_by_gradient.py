"""Shows another function to whoever asks for a gradient than to whoever reads the result."""

from imharness.images import DefenseInfo, Purification, hookimpl


class TwoFaced(Purification):
    """Brighten the images that nobody takes gradients of."""

    info = DefenseInfo(id="blind/differs-by-gradient", version="1", differentiable=True)

    def build(self, device):
        return lambda images, rng: images if images.requires_grad else (images + 0.2).clamp(0, 1)


@hookimpl
def components():
    return [TwoFaced()]
