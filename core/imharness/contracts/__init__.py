"""What a plugin may be: one file per family of components."""
