"""Pairs reconstructions with private images, for attacks that rebuild several images from one gradient.

The mean gradient of several images is the same in any order, so an attack cannot know the order. Within each round of
a participant, reconstructions are paired with private images so that the sum of squared errors is least: an optimal
assignment (Kuhn, 1955; Crouse, 2016, as in scipy). This favours the attack; it is used for scores alone.
"""

import numpy as np
import scipy
import torch

from imharness.gradients import Images


def paired(rebuilt: Images, private: Images, size: int) -> torch.Tensor:
    """Return the position of the reconstruction of each private image, int64 ``(N,)``.

    Both are ``(N, 3, H, W)``; each participant has `size` successive images.
    """
    orders = []
    for start in range(0, len(private), size):
        reconstructions, originals = (images[start : start + size].flatten(1).double() for images in (rebuilt, private))
        errors = torch.cdist(originals, reconstructions).square().cpu().numpy()
        orders.append(start + scipy.optimize.linear_sum_assignment(errors)[1])
    return torch.as_tensor(np.concatenate(orders), device=private.device)
