"""Running a plan: targets of attacks, tasks, workers, sweeps and sessions."""
