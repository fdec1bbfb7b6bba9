"""For people who write data sets."""

from imharness.components.hookspecs import hookimpl
from imharness.contracts.assets import Asset, cache_folder, data_folder, place
from imharness.contracts.component import Component, Info, Paper
from imharness.contracts.data_source import Archive, DataSource
from imharness.contracts.image_dataset import ImageDataset, ImageSet
from imharness.contracts.randomness import ImageRng, derive_seed, generator, seeded_init
from imharness.contracts.table_dataset import TableDataset, TableSet
from imharness.contracts.values import Images, double
from imharness.running.numerics import fresh_numerics, tensor_cores

__all__ = [
    "Archive",
    "Asset",
    "Component",
    "DataSource",
    "ImageDataset",
    "ImageRng",
    "ImageSet",
    "Images",
    "Info",
    "Paper",
    "TableDataset",
    "TableSet",
    "cache_folder",
    "data_folder",
    "derive_seed",
    "double",
    "fresh_numerics",
    "generator",
    "hookimpl",
    "place",
    "seeded_init",
    "tensor_cores",
]
