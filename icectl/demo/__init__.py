"""Create a realistic demo repository, with the official package or with icectl's encoders."""
