"""A realistic repository from nothing: the story, two authors who can write it, and its dates."""
