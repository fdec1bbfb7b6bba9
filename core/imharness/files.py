"""For people whose code reads files of users: plain files of bounded size. An error is one line that names the file."""

from imharness.reading.arrays import read_array, read_arrays
from imharness.reading.digests import file_digest, files_digest
from imharness.reading.image_folders import Census, images_below, is_image_name, said_of_misnamed
from imharness.reading.images import image_shape, read_image, read_pixels, said_of_images
from imharness.reading.opening import GIB, MIB, plain_file, read_bytes, read_text
from imharness.reading.structured import parsed_json, read_json
from imharness.reading.tables import numbered, read_columns, read_csv, read_stream
from imharness.reading.tensors import read_tensors, read_torch
from imharness.reading.text import NO_MARKUP, is_plain, number, plain, said_of_spellings

__all__ = [
    "GIB",
    "MIB",
    "NO_MARKUP",
    "Census",
    "file_digest",
    "files_digest",
    "image_shape",
    "images_below",
    "is_image_name",
    "is_plain",
    "number",
    "numbered",
    "parsed_json",
    "plain",
    "plain_file",
    "read_array",
    "read_arrays",
    "read_bytes",
    "read_columns",
    "read_csv",
    "read_image",
    "read_json",
    "read_pixels",
    "read_stream",
    "read_tensors",
    "read_text",
    "read_torch",
    "said_of_images",
    "said_of_misnamed",
    "said_of_spellings",
]
