"""What changed between two versions of a repository.

`select_versions` says which two snapshots are compared, `diff_nodes` what happened to groups
and arrays, and `read_chunk_changes` goes through the arrays one by one and tells what happened
to their chunks. From an ancestor the transaction logs are the source; in every other case the
content of the two versions.
"""
