"""Take operations back: plan on the newest state, check what is needed, write once."""
