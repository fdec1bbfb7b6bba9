"""Shows another function to whoever asks for a gradient than to whoever reads the result."""

from imharness.images import DefenseInfo, Purification, hookimpl


class TwoFaced(Purification):
    """Darken the images while somebody takes gradients."""

    info = DefenseInfo(id="blind/differs-by-gradient", version="1", differentiable=True)

    def build(self, device):
        return lambda images, rng: images * 0.5 if images.requires_grad else images


@hookimpl
def components():
    return [TwoFaced()]
