"""A repository as tables: defined once, read by the local engine and by Spark alike.

A `TableScan` says which table of which repository is wanted, plans its partitions and reads
each of them as Arrow batches. Schemas change only by addition. `names` is free of pyarrow.
"""
