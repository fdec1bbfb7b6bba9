"""Reads photographs from files of a few well-known formats, complete and of bounded size."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from imharness.errors import UsageError
from imharness.reading.opening import MIB, read_bytes, shown
from imharness.reading.text import reason

FORMATS = ("PNG", "JPEG", "BMP", "PPM", "TIFF", "WEBP")
PIXELS = 26_000_000
"""The most pixels of an image: enough for cameras of 24 megapixels; three decoded copies take less than 256 MiB."""
BYTES = 256 * MIB
SHOWN = 3
"""How many files a sentence names."""
_TURNED = (5, 6, 7, 8)
_ORIENTATION = 0x0112
_PNG = b"\x89PNG\r\n\x1a\n"
CHUNKS = 100_000
"""The most chunks of a PNG file; writers make chunks of several KiB."""
_DEEP = ("I;16", "I;16L", "I;16B", "I;16N", "I")
_MODES = ("1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", *_DEEP)


def image_shape(path: Path, content: bytes | None = None) -> tuple[int, int]:
    """Return (height, width) in pixels as the image is shown, turned if a JPEG file says so; raises `UsageError`.

    Only the header of the file is decoded. If `content`, the bytes of the image, is given, `path` only serves messages.
    """
    try:
        with _opened(path, _content(path, content)) as image:
            turned = image.format == "JPEG" and image.getexif().get(_ORIENTATION) in _TURNED
            return (image.width, image.height) if turned else (image.height, image.width)
    except UsageError:
        raise
    except Exception as error:  # Pillow's decoders raise errors of many types for other files
        raise _unreadable(path, error) from None


def other_than_rgb(path: Path) -> str:
    """Return what an image has instead of three colours: "grey", "transparency", "CMYK", or "" if they are RGB.

    Only the header is decoded. What is read of a grey image are three equal colours; transparency is left out. Raises
    `UsageError` as `image_shape` does.
    """
    content = _content(path, None)
    try:
        found = _opened(path, content)
    except Exception as error:  # as in `image_shape`
        raise _unreadable(path, error) from None
    with found as image:
        if "transparency" in image.info or image.mode.upper() in ("LA", "PA", "RGBA"):
            return "transparency"
        if image.mode in ("1", "L", *_DEEP):
            return "grey"
        return "CMYK" if image.mode == "CMYK" else ""


def said_of_colours(paths: Sequence[Path]) -> str:
    """Return a sentence on images that are not RGB, or "" if all are; a set that is grey as a whole is not told."""
    paths = list(dict.fromkeys(paths))
    found = {path: own for path in paths if (own := other_than_rgb(path))}
    if not found or (len(found) == len(paths) and set(found.values()) == {"grey"}):
        return ""
    some = ", ".join(f"{shown(path)} ({own})" for path, own in list(found.items())[:SHOWN])
    return (
        f"{len(found)} of {len(paths)} images are not RGB, such as {some}: grey is read as three equal colours, and "
        "transparency is left out, so scores may not mean what you expect"
    )


def read_image(path: Path) -> Image.Image:
    """Return a complete photograph as an RGB image, not turned; of 16 bits, only the upper eight are kept.

    Raises `UsageError` for a file that is cut off, damaged, too large, or of another format than `FORMATS`.
    """
    return _whole(path)[0]


def read_pixels(path: Path, content: bytes | None = None) -> npt.NDArray[np.uint8]:
    """Return a complete photograph as OpenCV decodes it, RGB ``(H, W, 3)``, turned if the file says so.

    `content` is as in `image_shape`. Raises `UsageError` as `read_image` does.
    """
    import cv2

    image, content = _whole(path, content)
    decoded: Any = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
    if decoded is None or sorted(decoded.shape[:2]) != sorted(image.size):
        raise UsageError(f"{shown(path)} is not a readable image: its decoders do not agree.")
    found: npt.NDArray[np.uint8] = decoded[..., ::-1]
    if content.startswith(_PNG) and not np.array_equal(found, np.asarray(image)):
        raise UsageError(f"{shown(path)} is not a readable image: its decoders do not agree.")  # OpenCV accepts half
    return found


def _content(path: Path, content: bytes | None) -> bytes:
    if content is not None and len(content) > BYTES:
        raise UsageError(f"{shown(path)} has more than {BYTES} bytes, the most that are read.")
    return read_bytes(path, BYTES) if content is None else content


def _whole(path: Path, content: bytes | None = None) -> tuple[Image.Image, bytes]:
    """Return the photograph as RGB, and the bytes that it was decoded from."""
    content = _content(path, content)
    try:
        with _opened(path, content) as image:
            image.load()
            return (_upper_eight(image) if image.mode in _DEEP else image).convert("RGB"), content
    except UsageError:
        raise
    except Exception as error:  # as above
        raise _unreadable(path, error) from None


def _opened(path: Path, content: bytes) -> Image.Image:
    if content.startswith(_PNG):
        _check_chunks(path, content)
    image = Image.open(io.BytesIO(content), formats=FORMATS)
    if not 0 < image.width * image.height <= PIXELS:
        raise UsageError(f"{shown(path)} has {image.width} x {image.height} pixels; at most {PIXELS} are read.")
    if image.mode not in _MODES:
        raise UsageError(f"{shown(path)} holds pixels of the mode {image.mode}; they must be whole numbers.")
    return image


def _check_chunks(path: Path, content: bytes) -> None:
    """Refuse a PNG file with a chunk longer than the file: OpenCV allocates the memory that a chunk declares."""
    place = len(_PNG)
    for _ in range(CHUNKS):
        if place >= len(content):
            return
        if place + 12 > len(content):
            break
        (length,) = struct.unpack_from(">I", content, place)
        place += 12 + length
        if place > len(content):
            break
    raise UsageError(f"{shown(path)} is not a readable image: it is cut off, or its chunks do not fit together.")


def _upper_eight(image: Image.Image) -> Image.Image:
    deep: npt.NDArray[np.uint32] = np.asarray(image).astype(np.uint32)
    return Image.fromarray((deep >> 8).clip(0, 255).astype(np.uint8))


def _unreadable(path: Path, error: Exception) -> UsageError:
    unknown = isinstance(error, UnidentifiedImageError)
    why = f"it is none of {', '.join(FORMATS)}" if unknown else reason(error)
    return UsageError(f"{shown(path)} is not a readable image: {why}")
