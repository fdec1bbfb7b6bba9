"""Track 3: which distance between images sees like people."""
