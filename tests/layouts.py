"""The layouts of published files, and stand-ins: files in such a layout whose numbers are ones.

A text in the folder `layouts` lists what a file holds: names, shapes and kinds of numbers, from the code of its authors
or from the file itself, never from the loader here. After lines of facts (`# source: ...`) there is a line for each
tensor, ``NAME SHAPE [TYPE]``: 128x3x3x3 is a shape, - that of a single number, and float32 is not written out. As in a
shell, {0..3} and {a,b} mean several names.

Facts: `source`, which code or file; `assets`, the assets with this layout, unless the text has the name of its only
one; `under`, keys that lead to the tensors; `beside`, what is stored beside the first of these keys, as JSON; `format`,
if it is not that of torch; `not-confirmed`, what the source leaves open.
"""

import itertools
import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save

FOLDER = Path(__file__).parent / "layouts"
LINE = re.compile(r"(\S*) (-|\d+(?:x\d+)*)(?: (\w+))?")
ARCHIVED = "dino_vitb16_single_lora"
"""The folder inside the archive of DreamSim's updates."""


@dataclass(frozen=True)
class Layout:
    """What a published file holds: the facts of its text, and tensors of ones that take no room."""

    facts: dict[str, str]
    tensors: dict[str, torch.Tensor]

    def write(self, path: Path) -> None:
        """Write a stand-in in this layout."""
        path.parent.mkdir(parents=True, exist_ok=True)
        beside: dict[str, Any] = json.loads(self.facts.get("beside", "{}"))
        match self.facts.get("format"):
            case "npz":
                np.savez(path, **{name: tensor.numpy() for name, tensor in self.tensors.items()})
            case "opencv":
                path.write_text("%YAML:1.0\n---\n" + _yaml(_nested(self.tensors)))
            case "zip":
                with zipfile.ZipFile(path, "w") as archive:
                    archive.writestr(f"{ARCHIVED}/adapter_config.json", json.dumps(beside))
                    updates = {name: tensor.contiguous() for name, tensor in self.tensors.items()}
                    archive.writestr(f"{ARCHIVED}/adapter_model.safetensors", save(updates))
            case "tensor":
                torch.save(self.tensors[""], path)
            case _:
                content: object = self.tensors
                for key in reversed(self.facts.get("under", "").split()):
                    content = {key: content}
                torch.save({**content, **beside}, path)  # type: ignore[dict-item]


def read(file: Path) -> Layout:
    """Return the layout in a text."""
    facts, tensors, last = dict[str, str](), dict[str, torch.Tensor](), ""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("#   "):
            facts[last] += f" {line.removeprefix('#   ')}"
        elif line.startswith("# "):
            last, _, facts[last] = line.removeprefix("# ").partition(": ")
        else:
            match = LINE.fullmatch(line)
            assert match, f"{file}: {line!r} is no line NAME SHAPE [TYPE]"
            shape = [] if match[2] == "-" else [int(side) for side in match[2].split("x")]
            for name in expanded(match[1]):
                assert name not in tensors, f"{file}: {name} is listed twice"
                tensors[name] = torch.ones((), dtype=getattr(torch, match[3] or "float32")).expand(shape)
    return Layout(facts, tensors)


def expanded(pattern: str) -> list[str]:
    """Return the names that a pattern such as a{0..3} or {a,b} stands for; numbers have as many digits as the first."""
    choices = []
    for number, piece in enumerate(re.split(r"\{(.*?)\}", pattern)):
        first, dots, last = piece.partition("..")
        if number % 2 and dots:
            choices.append([str(index).zfill(len(first)) for index in range(int(first), int(last) + 1)])
        else:
            choices.append(piece.split(",") if number % 2 else [piece])
    return ["".join(segments) for segments in itertools.product(*choices)]


def _nested(tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Return nested maps by the components of the names; the name 0 means a list of one."""
    tree: dict[str, Any] = {}
    for name, tensor in tensors.items():
        *path, last = name.split(".")
        branch = tree
        for key in path:
            branch = branch.setdefault(key, {})
        branch[last] = tensor
    return tree


def _yaml(tree: Any, indent: str = "") -> str:
    """Return maps, and matrices as lists of lists of numbers, in OpenCV's dialect of YAML."""
    text = ""
    for key, value in tree.items():
        head = f"{indent}-\n" if key == "0" else f"{indent}{key}:"
        if isinstance(value, dict):
            text += head + ("" if key == "0" else "\n") + _yaml(value, f"{indent}   ")
        elif key == "range":
            numbers = [0.0] * (value.numel() // 2) + [1.0] * (value.numel() // 2)
            text += f"{head} !!opencv-matrix\n   rows: {value.shape[0]}\n   cols: {value.shape[1]}\n   dt: f\n"
            text += f"   data: [ {', '.join(f'{number:.1f}' for number in numbers)} ]\n"
        elif value.dim() == 2:
            row = f"{indent}   - [ {', '.join(['1.0'] * value.shape[1])} ]\n"
            text += f"{head}\n{row * value.shape[0]}"
        else:
            text += f"{head} [ {', '.join(['1.0'] * len(value))} ]\n" if value.dim() else f"{head} 1.0\n"
    return text


LAYOUTS = {file.stem: read(file) for file in sorted(FOLDER.glob("*.txt"))}
"""Name of a text -> its layout."""
BY_ASSET = {name: layout for stem, layout in LAYOUTS.items() for name in layout.facts.get("assets", stem).split()}
"""Name of an asset, or of a metric of pyiqa -> the layout of its file."""
