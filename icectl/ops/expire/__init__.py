"""Expiration: releasing old snapshots from the history, by a cutoff or by retention rules."""
