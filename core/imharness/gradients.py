"""For people who write attacks that rebuild images from gradients, and defenses against them."""

from imharness.components.hookspecs import hookimpl
from imharness.contracts.assets import Asset
from imharness.contracts.component import Component, Info, Paper
from imharness.contracts.federated_round import ALONE, HONEST, LABELS, MALICIOUS, Round
from imharness.contracts.gradient_defense import GradientDefense, ProtectGradients
from imharness.contracts.image_protection import ImagePool, ImageProtection, ProtectImages
from imharness.contracts.model import Model, NetworkFactory
from imharness.contracts.randomness import ImageRng
from imharness.contracts.reconstruction_attack import Reconstruct, ReconstructionAttack
from imharness.contracts.track import Progress
from imharness.contracts.values import Gradients, Images

__all__ = [
    "ALONE",
    "HONEST",
    "LABELS",
    "MALICIOUS",
    "Asset",
    "Component",
    "GradientDefense",
    "Gradients",
    "ImagePool",
    "ImageProtection",
    "ImageRng",
    "Images",
    "Info",
    "Model",
    "NetworkFactory",
    "Paper",
    "Progress",
    "ProtectGradients",
    "ProtectImages",
    "Reconstruct",
    "ReconstructionAttack",
    "Round",
    "hookimpl",
]
