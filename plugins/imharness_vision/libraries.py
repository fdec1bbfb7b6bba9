"""The base of adapters of other libraries: facts that follow from a parameter, and strengths that are radii."""

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, ClassVar, Self

from pydantic import Field, field_validator

from imharness.errors import Unavailable
from imharness.images import Attack, AttackInfo, Budget, Info, Paper


class InfoFrom:
    """A descriptor for the attribute `info` of components whose facts follow from their parameters.

    `facts`: component -> its facts. `default`: the facts of the class itself, as with default parameters.
    """

    def __init__(self, default: Info, facts: Callable[[Any], Info]) -> None:
        self.default, self.facts = default, facts

    def __get__(self, component: Any, owner: type) -> Info:
        return self.default if component is None else self.facts(component)


def attack_infos(id: str, paper: Paper) -> dict[str, AttackInfo]:
    """Return the facts of a library's white-box attacks by norm; strengths are radii."""
    radii = {
        "linf": {"weak": 2 / 255, "medium": 4 / 255, "strong": 8 / 255},
        "l2": {"weak": 0.5, "medium": 1.0, "strong": 2.0},
    }
    return {
        norm: AttackInfo(
            id=id,
            version="1",
            access="white_box",
            norm=norm,
            paper=paper,
            strengths={strength: {"radius": radius} for strength, radius in strength_radii.items()},
            distortion="linf" if norm == "linf" else "psnr",
        )
        for norm, strength_radii in radii.items()
    }


def require_library(name: str) -> None:
    """Raise `Unavailable` without a library, which an extra of the same name installs."""
    if find_spec(name) is None:
        raise Unavailable(f"the package {name} is not installed", f"pip install 'image-privacy-harness[{name}]'")


class LibraryAttack(Attack):
    """Attack of another library that raises a score within a radius, following gradients; `method` is its class there.

    `library`: name of the package, and of the extra that installs it. `methods`: class -> how many scores of an image
    it asks for in each step.
    """

    library: ClassVar[str]
    methods: ClassVar[Mapping[str, int]]
    address = "method"
    method: str = Field(default="", description="Name of the attack's class in the library.")
    radius: float = Field(
        default=8 / 255, gt=0, le=100, description="Radius of the ball in the attack's norm, for images in [0, 1]."
    )
    steps: int = Field(default=10, ge=1, le=10_000, description="Gradient steps; fast gradient attacks take one.")
    step: float = Field(default=0.25, gt=0, le=10, description="Length of a step, as a share of the radius.")

    @field_validator("method")
    @classmethod
    def _supported(cls, method: str) -> str:
        if method not in ("", *cls.methods):
            raise ValueError(f"only attacks that raise a loss within a radius fit a metric: {', '.join(cls.methods)}")
        return method

    def variants(self) -> list[Self]:
        """Return every method of the library, at these parameters."""
        return [self.with_parameters(method=method) for method in self.methods]

    def require(self) -> None:
        """Raise `Unavailable` without the library, or without a method."""
        require_library(self.library)
        if not self.method:
            raise Unavailable(f"no attack of {self.library} is named", f"--attack {self.library}:METHOD")

    def budget(self) -> Budget:
        """Return the ball and the number of scores, at most."""
        return Budget(radius=self.radius, queries=self.steps * self.methods[self.method])
