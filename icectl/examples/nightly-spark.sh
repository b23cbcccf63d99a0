#!/bin/sh
# A night on a Spark cluster, for repositories with more references than one machine likes:
# collect the garbage, then export where each chunk is, for the analysts.
#
#     SPARK_MASTER=spark://master:7077 REPO=weather TABLES=s3a://my-bucket/tables nightly-spark.sh
#
# The executors need icectl installed, and read the storage with their own credentials.
set -eu
: "${REPO:?the repository: a name from the config file or a URL}"
: "${TABLES:?where the tables go: a directory or a URL that Spark can write}"
: "${SPARK_MASTER:=local[*]}"

icectl gc -r "$REPO" --older-than 7d --max-delete 20% --yes --quiet \
  --engine spark --spark-master "$SPARK_MASTER"

icectl export chunk_refs snapshots -r "$REPO" --to "$TABLES/$(date -u +%F)" --quiet \
  --engine spark --spark-master "$SPARK_MASTER"
