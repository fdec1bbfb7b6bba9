"""Published image folders, one layout per file."""
