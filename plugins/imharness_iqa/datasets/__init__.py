"""Image data sets with opinion scores, from folders on this machine."""
