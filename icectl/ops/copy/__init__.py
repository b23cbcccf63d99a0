"""Copy a repository to another storage, in full or in part, and bring a copy up to date."""
