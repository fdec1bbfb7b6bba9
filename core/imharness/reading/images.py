"""Reads photographs from files of well-known formats, complete, upright and of bounded size."""

from __future__ import annotations

import functools
import importlib.util
import io
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from imharness.errors import UsageError
from imharness.reading.opening import MIB, printable, read_bytes
from imharness.reading.profiles import other_colours
from imharness.reading.text import reason

FORMATS = ("PNG", "JPEG", "BMP", "PPM", "TIFF", "WEBP", "GIF", "JPEG2000", "AVIF")
"""What is read where Pillow was built with it; AVIF comes with Pillow 11.3."""
PIXELS = 26_000_000
"""The most pixels of an image: enough for cameras of 24 megapixels; three decoded copies take less than 256 MiB."""
BYTES = 256 * MIB
SHOWN = 3
"""How many files a sentence names."""
DARKEST = 16
"""An image of more than 8 bits whose upper eight bits all lie below this uses 12 bits or fewer."""
DIM = 64
"""One whose upper eight bits all lie below this may use 14 bits, as the sensors of many cameras do."""
_TURNED = (5, 6, 7, 8)
_ORIENTATION = 0x0112
_BITS = 258
_SIZ, _PRECISION = b"\xff\x4f\xff\x51", 42
"""How the code of JPEG 2000 begins, and how far from there the bits of its first component stand, less one."""
_AV1, _DEPTH = b"av1C", 6
"""The box of an AVIF file that describes its code, and how far from its name the byte with the bits stands."""
_AVIF_BITS = (8, 8, 10, 12)
_PNG = b"\x89PNG\r\n\x1a\n"
CHUNKS = 100_000
"""The most chunks of a PNG file; writers make chunks of several KiB."""
SPARE = 65_536
"""How many bytes more than an image has may be inflated: rows of an interlaced file have further ones."""
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Colour type of a PNG header -> values for each pixel."""
_STEP = 1 << 20
_DEEP = ("I;16", "I;16L", "I;16B", "I;16N", "I")
_MODES = ("1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", *_DEEP)


@functools.cache
def formats() -> tuple[str, ...]:
    """Return the formats that are read on this machine: HEIC, too, where the package pillow-heif is installed."""
    if importlib.util.find_spec("pillow_heif") is not None:
        importlib.import_module("pillow_heif").register_heif_opener()
    Image.init()
    return tuple(name for name in (*FORMATS, "HEIF") if name in Image.OPEN)


def image_shape(path: Path, content: bytes | None = None) -> tuple[int, int]:
    """Return (height, width) in pixels as the image is shown, turned if the file says so; raises `UsageError`.

    Only the header of the file is decoded. If `content`, the bytes of the image, is given, `path` only serves messages.
    """
    try:
        with _opened(path, _content(path, content)) as image:
            # Pillow turns TIFF files itself, as soon as it opens them.
            turned = image.format != "TIFF" and image.getexif().get(_ORIENTATION) in _TURNED
            return (image.width, image.height) if turned else (image.height, image.width)
    except UsageError:
        raise
    except Exception as error:  # Pillow's decoders raise errors of many types for other files
        raise _unreadable(path, error) from None


def said_of_images(paths: Sequence[Path]) -> list[str]:
    """Return sentences on images whose values may not mean what one expects: of their colours, bits and profiles."""
    return list(filter(None, (said_of_colours(paths), said_of_bits(paths), said_of_profiles(paths))))


def other_than_rgb(path: Path) -> str:
    """Return what an image has instead of three colours: "grey", "transparency", "CMYK", or "" if they are RGB.

    Only the header is decoded. What is read of a grey image are three equal colours; transparency is left out. Raises
    `UsageError` as `image_shape` does.
    """
    content = _content(path, None)
    try:
        opened = _opened(path, content)
    except UsageError:
        raise
    except Exception as error:  # as in `image_shape`
        raise _unreadable(path, error) from None
    with opened as image:
        if "transparency" in image.info or image.mode.upper() in ("LA", "PA", "RGBA"):
            return "transparency"
        if image.mode in ("1", "L", *_DEEP):
            return "grey"
        return "CMYK" if image.mode == "CMYK" else ""


def said_of_colours(paths: Sequence[Path]) -> str:
    """Return a sentence on images that are not RGB, or "" if all are; a set that is grey as a whole gets none."""
    paths = list(dict.fromkeys(paths))
    colours = {path: colour for path in paths if (colour := other_than_rgb(path))}
    if not colours or (len(colours) == len(paths) and set(colours.values()) == {"grey"}):
        return ""
    some = ", ".join(f"{printable(path)} ({kind})" for path, kind in list(colours.items())[:SHOWN])
    return (
        f"{len(colours)} of {len(paths)} images are not RGB, such as {some}: grey is read as three equal colours, and "
        "transparency is left out, so scores may not mean what you expect"
    )


def said_of_bits(paths: Sequence[Path]) -> str:
    """Return a sentence on images of more than 8 bits, of which the upper eight are read, or "" if there are none.

    Those of 16 that use the lower quarter alone may be dark, or hold 14 bits, as raw images of cameras do; those of 12
    bits are refused. Only images of more than 8 bits are decoded. Raises `UsageError` as `read_image` does.
    """
    paths = list(dict.fromkeys(paths))
    deep = {path: bits for path in paths if (bits := _bits_of(path)) > 8}
    if not deep:
        return ""
    sentence = (
        f"{len(deep)} of {len(paths)} images have more than 8 bits for each value, of which the upper eight are read, "
        f"such as {_some(list(deep))}: smaller differences are not seen"
    )
    sixteen = [path for path, bits in deep.items() if bits == 16]
    dim = [path for path in sixteen if max(high for _, high in read_image(path).getextrema()) < DIM]  # type: ignore[misc]
    if not dim:
        return sentence
    return (
        f"{sentence}; {len(dim)} of them have none above {256 * DIM - 1}, such as {_some(dim)}: if they hold 14 bits, "
        "they are read four times too dark; save them with 8 bits, of which the highest means white"
    )


def _some(paths: Sequence[Path]) -> str:
    return ", ".join(printable(path) for path in paths[:SHOWN])


def said_of_profiles(paths: Sequence[Path]) -> str:
    """Return a sentence on images whose values mean other colours than sRGB's, by their ICC profile or header, or "".

    Values are read as they are, and profiles are not applied. Raises `UsageError` as `image_shape` does.
    """
    paths = list(dict.fromkeys(paths))
    profiles = {path: name for path in paths if (name := _other_profile(path))}
    if not profiles:
        return ""
    some = ", ".join(f"{printable(path)} ({name})" for path, name in list(profiles.items())[:SHOWN])
    return (
        f"{len(profiles)} of {len(paths)} images have a colour profile other than sRGB, such as {some}: their values "
        "are read as if they were sRGB, so they stand for other colours than those that people see; convert them first"
    )


def _other_profile(path: Path) -> str:
    try:
        content = _content(path, None)
        with _opened(path, content) as image:
            return other_colours(image, content)
    except UsageError:
        raise
    except Exception as error:  # as in `image_shape`
        raise _unreadable(path, error) from None


def _bits_of(path: Path) -> int:
    content = _content(path, None)
    try:
        with _opened(path, content) as image:
            return _bits(image, content)
    except UsageError:
        raise
    except Exception as error:  # as in `image_shape`
        raise _unreadable(path, error) from None


def read_image(path: Path, content: bytes | None = None) -> Image.Image:
    """Return a complete photograph as an RGB image, turned if the file says so; of 16 bits, the upper eight are kept.

    `content` is as in `image_shape`. Raises `UsageError` for a file that is cut off, damaged, too large, of a format
    that is not read, of several pictures, or of more bits than 8 whose values use only the lower ones.
    """
    content = _content(path, content)
    try:
        with _opened(path, content) as image:
            deep = _bits(image, content) == 16
            image.load()
            upright = ImageOps.exif_transpose(image)
            photograph = (_upper_eight(upright) if upright.mode in _DEEP else upright).convert("RGB")
    except UsageError:
        raise
    except Exception as error:  # as above
        raise _unreadable(path, error) from None
    if deep and (highest := max(high for _, high in photograph.getextrema())) < DARKEST:  # type: ignore[misc]
        raise UsageError(
            f"{printable(path)} has 16 bits for each value, but none above {256 * int(highest) + 255}, so that it "
            "would be read as black; save it with 8 bits, of which the highest means white."
        )
    return photograph


def read_pixels(path: Path, content: bytes | None = None) -> npt.NDArray[np.uint8]:
    """Return a photograph as `read_image` does, as RGB ``(H, W, 3)``."""
    return np.array(read_image(path, content), dtype=np.uint8)


def _content(path: Path, content: bytes | None) -> bytes:
    if content is None:
        content = read_bytes(path, BYTES)
    if len(content) > BYTES:
        raise UsageError(f"{printable(path)} has more than {BYTES} bytes, the most that are read.")
    if not content:
        raise UsageError(f"{printable(path)} is not a readable image: it is empty.")
    return content


def _opened(path: Path, content: bytes) -> Image.Image:
    if content.startswith(_PNG):
        _check_chunks(path, content)
    image = Image.open(io.BytesIO(content), formats=formats())
    if not 0 < image.width * image.height <= PIXELS:
        raise UsageError(f"{printable(path)} has {image.width} x {image.height} pixels; at most {PIXELS} are read.")
    if image.mode not in _MODES:
        raise UsageError(f"{printable(path)} holds pixels of the mode {image.mode}; they must be whole numbers.")
    if image.mode == "I" and image.format == "TIFF":
        raise UsageError(
            f"{printable(path)} holds whole numbers of 32 bits, or with a sign, and does not say which one is white; "
            "save it with 8 or 16 bits."
        )
    if image.format != "MPO" and getattr(image, "is_animated", False):  # a phone's MPO repeats its first picture
        raise UsageError(
            f"{printable(path)} holds several pictures, as an animation does; save the one that you mean as a file."
        )
    return image


def _check_chunks(path: Path, content: bytes) -> None:
    """Refuse a PNG file that is cut off or has a chunk longer than the file: Pillow takes what it can get."""
    start = len(_PNG)
    for _ in range(CHUNKS):
        if start >= len(content):
            return
        if start + 12 > len(content):
            break
        (length,) = struct.unpack_from(">I", content, start)
        start += 12 + length
        if start > len(content):
            break
    raise UsageError(f"{printable(path)} is not a readable image: it is cut off, or its chunks do not fit together.")


def check_inflated(path: Path, content: bytes) -> None:
    """Refuse a PNG file whose compressed data hold more than the image that its header states; raises `UsageError`.

    For files of strangers, whose 0.8 MB may inflate to 868 MB. At most `SPARE` more bytes than the image has are
    inflated, in steps, and none is kept.
    """
    header = content[16:29]
    if len(header) < 13 or header[9] not in _CHANNELS:
        raise UsageError(f"{printable(path)} is not a readable image: its header is not that of a PNG file.")
    width, height, depth, colours = struct.unpack(">IIBB", header[:10])
    if not 0 < width * height <= PIXELS:
        raise UsageError(f"{printable(path)} has {width} x {height} pixels; at most {PIXELS} are read.")
    most = height * (width * depth * _CHANNELS[colours] // 8 + 2) + SPARE
    inflater, start = zlib.decompressobj(), len(_PNG)
    while start + 12 <= len(content):
        (length,) = struct.unpack_from(">I", content, start)
        waiting = content[start + 8 : start + 8 + length] if content[start + 4 : start + 8] == b"IDAT" else b""
        while waiting and not inflater.eof:
            try:
                most -= len(inflater.decompress(waiting, _STEP))
            except zlib.error as error:
                raise _unreadable(path, error) from None
            if most < 0:
                raise UsageError(
                    f"{printable(path)} is not a readable image: it inflates to more than the {width} x {height} "
                    "pixels that its header states."
                )
            waiting = inflater.unconsumed_tail
        start += 12 + length


def _bits(image: Image.Image, content: bytes) -> int:
    """Return the bits of a value, 16 where Pillow keeps them; of colours it keeps eight without a word."""
    if image.mode in _DEEP:
        return 16
    if content.startswith(_PNG):
        return content[24]
    if image.format == "TIFF":
        return int(np.max(image.tag_v2.get(_BITS, (8,))))  # type: ignore[attr-defined]
    if image.format == "PPM":
        settings = image.tile[0].args  # type: ignore[attr-defined]
        return int(settings[1]).bit_length() if isinstance(settings, tuple) else 8
    if image.format == "JPEG2000":
        return (content[content.index(_SIZ) + _PRECISION] & 0x7F) + 1
    if image.format == "AVIF":
        return _AVIF_BITS[content[content.index(_AV1) + _DEPTH] >> 5 & 0b11]
    if image.format == "HEIF":
        return int(image.info.get("bit_depth", 8))
    return 8


def _upper_eight(image: Image.Image) -> Image.Image:
    deep: npt.NDArray[np.uint32] = np.asarray(image).astype(np.uint32)
    return Image.fromarray((deep >> 8).clip(0, 255).astype(np.uint8))


def _unreadable(path: Path, error: Exception) -> UsageError:
    unknown = isinstance(error, UnidentifiedImageError)
    why = f"it is none of {', '.join(formats())}" if unknown else reason(error)
    return UsageError(f"{printable(path)} is not a readable image: {why}")
