"""``python -m imharness`` is the command ``harness``."""

from imharness.cli import main

if __name__ == "__main__":
    main()
