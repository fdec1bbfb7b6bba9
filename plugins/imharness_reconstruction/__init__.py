"""Track 2: what shared gradients give away about private images."""
