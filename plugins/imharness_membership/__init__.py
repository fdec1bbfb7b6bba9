"""Track 4: how much a model gives away about its training set."""
