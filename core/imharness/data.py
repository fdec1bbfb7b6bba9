"""For people who write data sets."""

from imharness.components.hookspecs import hookimpl
from imharness.contracts.assets import Asset, asset_path, cache_folder, data_folder
from imharness.contracts.component import Component, Info, Paper
from imharness.contracts.data_source import Archive, DataSource
from imharness.contracts.image_dataset import ImageDataset, ImageSet
from imharness.contracts.near_duplicates import COPY, by_looks, said_of_copies, said_of_pairs, thumbnails
from imharness.contracts.randomness import ImageRng, derive_seed, generator, seeded_init
from imharness.contracts.table_dataset import TableDataset, TableSet
from imharness.contracts.values import Images, double
from imharness.running.numerics import fresh_numerics, tensor_cores

__all__ = [
    "COPY",
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
    "asset_path",
    "by_looks",
    "cache_folder",
    "data_folder",
    "derive_seed",
    "double",
    "fresh_numerics",
    "generator",
    "hookimpl",
    "said_of_copies",
    "said_of_pairs",
    "seeded_init",
    "tensor_cores",
    "thumbnails",
]
