"""Each module here registers jobs with `@job` when it is imported."""
