"""Files inside other packages, found without importing the packages, which would take seconds in each process."""

from importlib.util import find_spec
from pathlib import Path

from imharness.errors import Unavailable


def shipped(package: str, folder: str, name: str) -> Path:
    """Return the file with this name in a folder of a package, with any suffix; of several, the first by name."""
    spec = find_spec(package)
    places = (spec.submodule_search_locations if spec else None) or []
    paths = [path.resolve() for root in places for path in sorted(Path(root, folder).glob(f"{name}.*"))]
    if not paths:
        raise Unavailable(f"{package} has no file {folder}/{name}", "install the package again")
    return paths[0]
