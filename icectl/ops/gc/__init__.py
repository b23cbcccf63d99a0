"""Garbage collection: what no version of the repository needs, deleted safely.

`plan_gc` computes what goes and why, and stops at anything that does not fit; `execute_gc`
carries a plan out. Keeping too much is safe, deleting too much is not.
"""
