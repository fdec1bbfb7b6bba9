"""Defenses that exchange the channels of an image, and inverses that do more than take that back."""

from typing import Literal

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Inverse, Purification, Purifier


class Channels(Purification):
    """Exchange the channels of each image at random; `inverted` says what the inverse does.

    "whole": undo the exchange, which is honest. "grey": also copy the first channel to the others. "by-place": also
    reverse the channels of the lower half.
    """

    info = DefenseInfo(id="acme/channels", version="1", differentiable=True, random=True)
    inverted: Literal["whole", "grey", "by-place"] = "whole"

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            places = rng.uniform(3).argsort(dim=1)
            return images.gather(1, places[:, :, None, None].expand_as(images))

        return purify

    def inverse(self, device: torch.device) -> Inverse:
        def back(defended: Images, shape: tuple[int, ...], rng: ImageRng) -> Images:
            places = rng.uniform(3).argsort(dim=1).argsort(dim=1)
            result = defended.gather(1, places[:, :, None, None].expand_as(defended))
            if self.inverted == "grey":
                return result[:, :1].expand_as(result).contiguous()
            if self.inverted == "by-place":
                half = result.shape[2] // 2
                return torch.cat([result[:, :, :half], result[:, :, half:].flip(1)], dim=2)
            return result

        return back
