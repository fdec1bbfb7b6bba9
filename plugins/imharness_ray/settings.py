"""The options of the executor. Imports no Ray: the command line reads them for its help."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class RaySettings(BaseModel):
    """The settings of the executor; the command line offers each field as an option."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ray_address: str = Field(
        default="",
        description="The cluster; local starts one on this machine. Default: RAY_ADDRESS, or local.",
        json_schema_extra={"metavar": "ADDRESS|local"},
    )
    gpus_per_worker: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="GPUs for each worker, such as 0.5; with 0, workers compute on the CPU.",
        json_schema_extra={"metavar": "NUMBER"},
    )
    memory_per_worker: float = Field(
        default=0.9,
        gt=0,
        description="Memory that a worker asks its node for, GB.",
        json_schema_extra={"metavar": "GB"},
    )
    workers: int | None = Field(default=None, ge=1, description="Most workers. Default: as many as have room.")
