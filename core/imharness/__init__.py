"""An evaluation harness for image privacy and image-quality robustness."""

__version__ = "0.1.0"
