"""Garbage collection: delete the objects that no version of the repository needs.

Read in this order: `run` (the whole command), `plan` (what is deleted), `reachability` (what is
kept), `repository.provenance` (why the rest may go), `execute` (the deletion), `saved_plan`
(`--plan` and `--apply`), `backups` (old copies of `repo`), `report` (the result), and
`safeguards` (limits that the user sets). Keeping too much is safe, deleting too much is not.
"""
