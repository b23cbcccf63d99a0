"""A repository as tables, for either engine.

A `TableScan` names a table of a repository, plans its partitions and reads each of them as Arrow
batches. Schemas change only by addition. `names` does not import pyarrow.
"""
