"""Arguments -> ops -> renderer. The only layer that reads the environment or the terminal."""
