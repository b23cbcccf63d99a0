"""The command line: arguments -> ops -> render. Only this layer reads the environment."""
