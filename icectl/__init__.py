"""icectl: the administration tool for Icechunk repositories."""

__version__ = "0.1.0"
