"""Running a plan: targets of attacks, cells, workers, sweeps and sessions."""
