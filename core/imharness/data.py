"""For people who write data sets."""

from imharness.components.assets import Asset, cache_folder, data_folder, place
from imharness.components.component import Component, Info, Paper
from imharness.components.hookspecs import hookimpl
from imharness.contracts.image_dataset import ImageDataset, ImageSet
from imharness.contracts.table_dataset import TableDataset, TableSet
from imharness.contracts.values import Images
from imharness.errors import ContractError, HarnessError, Unavailable, UsageError
from imharness.numerics import fresh_numerics
from imharness.randomness import ImageRng, derive_seed, generator, seeded_init

__all__ = [
    "Asset", "Component", "ContractError", "HarnessError", "ImageDataset", "ImageRng", "ImageSet", "Images", "Info",
    "Paper", "TableDataset", "TableSet", "Unavailable", "UsageError", "cache_folder", "data_folder", "derive_seed",
    "fresh_numerics", "generator", "hookimpl", "place", "seeded_init",
]  # fmt: skip
