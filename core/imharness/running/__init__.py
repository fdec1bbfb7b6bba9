"""Running a plan: targets, cells, workers, sweeps."""
