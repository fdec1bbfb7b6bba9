"""Returns its input if a gradient is required, and brightens it otherwise."""

from imharness.images import DefenseInfo, Purification, hookimpl


class TwoFaced(Purification):
    """Brighten the images that do not require gradients."""

    info = DefenseInfo(id="blind/differs-by-gradient", version="1", differentiable=True)

    def build(self, device):
        return lambda images, rng: images if images.requires_grad else (images + 0.2).clamp(0, 1)


@hookimpl
def components():
    return [TwoFaced()]
