"""icectl and the official package read each other's files."""
