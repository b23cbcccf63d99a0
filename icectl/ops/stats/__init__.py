"""Where the bytes of a repository are: every chunk object counted once, by columns."""
