"""The plan of a gc of 10,000,000 references: on Spark with one core and two, and without it.

The session is up when the clock starts. What is compared with the local engine is Spark's
price on the same two cores: the fixed cost and the way of each reference through Java.
"""

from __future__ import annotations

from tests.benchmarks.harness import Command, Comparison, Scale, dataset, job, python

REFERENCES = 10_000_000
PLAN = "from tests.benchmarks import spark_gc; spark_gc.main()"


def plan(references: int, engine: str, cores: int = 2) -> Command:
    repository = dataset("native_refs_in_manifests", references)
    return python(PLAN, repository, engine, cores, measures_inside=True)


@job("spark gc plan of 10,000,000 refs, cores")
def growth_with_cores(scale: Scale) -> Comparison:
    references = scale.of(REFERENCES)
    return Comparison(plan(references, "spark", 1), plan(references, "spark", 2), "one core")


@job("spark gc plan of 10,000,000 refs, engines")
def price_of_spark(scale: Scale) -> Comparison:
    references = scale.of(REFERENCES)
    return Comparison(plan(references, "local"), plan(references, "spark"), "local")
