"""Write DataFrames as files, with the same texts as the local engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import functions as sql

from icectl.pipeline.engine import TableFiles
from icectl.tables.schemas import INTEGER, INTEGERS, TEXT, TEXTS, TIME

SPARK_TIME = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"
SPARK_TYPES = {
    TEXT: "string",
    INTEGER: "bigint",
    TIME: "timestamp_ltz",
    TEXTS: "array<string>",
    INTEGERS: "array<bigint>",
}


def spark_schema(schema: Any) -> str:
    """The DDL of an Arrow schema of `icectl.tables`."""
    return ", ".join(f"`{field.name}` {SPARK_TYPES[field.type]}" for field in schema)


def write_frame(frame: Any, files: TableFiles) -> None:
    """Write the DataFrame from the executors."""
    target = files.target
    if "://" not in target:
        target = Path(target).absolute().as_uri()
    if files.format == "parquet":
        # Otherwise times are written as INT96, which has neither unit nor zone.
        frame.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        frame.write.option("compression", "zstd").parquet(target)
        return
    columns = []
    for name in frame.columns:
        column, type_ = sql.col(name), files.schema.field(name).type
        if type_ == TIME:
            column = sql.date_format(column, SPARK_TIME)
        elif files.format == "csv" and type_ in (TEXTS, INTEGERS):
            column = sql.to_json(column, {"ignoreNullFields": "false"})
        columns.append(column.alias(name))
    writer = frame.select(*columns).write
    if files.format == "csv":
        # Otherwise it trims texts.
        writer = writer.option("ignoreLeadingWhiteSpace", "false")
        writer = writer.option("ignoreTrailingWhiteSpace", "false")
        writer = writer.option("header", "true").option("escape", '"').option("emptyValue", '""')
        writer.csv(target)
    else:
        writer.option("ignoreNullFields", "false").json(target)
