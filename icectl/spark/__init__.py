"""Repositories in Spark: `register(spark)`, then `spark.read.format("icechunk")`.

    icectl.spark.register(spark)
    refs = spark.read.format("icechunk").option("table", "chunk_refs").load("s3://bucket/repo")

The executors need this package and read the storage with their own credentials. PySpark is
imported by what needs it, never by this module.
"""

from __future__ import annotations

from typing import Any

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit, whose own options then apply."""


def register(spark: Any) -> None:
    """Make the format `icechunk` known to a session, classic or Connect."""
    from icectl.spark.datasource import IcechunkDataSource

    spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(IcechunkDataSource)
