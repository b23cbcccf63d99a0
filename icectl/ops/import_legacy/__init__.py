"""Import a repository of an older generation into a new one of spec version 2."""
