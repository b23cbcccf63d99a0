"""10,000,000 references read on Spark with every column, on one core and on two.

Left is one core, right are two: the ratio shows the growth. The second job compares the
driver's memory between a tenth of the references and all of them: it must not follow them.
"""

from __future__ import annotations

from tests.benchmarks.harness import Command, Comparison, Scale, dataset, job, python

REFERENCES = 10_000_000
SCAN = "from tests.benchmarks import spark_scan; spark_scan.main()"


def scan(references: int, cores: int) -> Command:
    repository = dataset("native_refs_in_manifests", references)
    return python(SCAN, repository, cores, measures_inside=True)


@job("spark scan of 10,000,000 refs, cores", target=0.75)
def growth_with_cores(scale: Scale) -> Comparison:
    references = scale.of(REFERENCES)
    return Comparison(scan(references, 1), scan(references, 2), "one core")


@job("spark scan of 10,000,000 refs, driver", memory_target=1.5)
def memory_of_the_driver(scale: Scale) -> Comparison:
    return Comparison(
        scan(scale.of(REFERENCES // 10), 2), scan(scale.of(REFERENCES), 2), "1,000,000 refs"
    )
