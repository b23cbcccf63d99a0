"""Speed and memory beside the official package: `python -m tests.benchmarks` or `make bench`.

    --only NAME      jobs whose name contains NAME, such as `s3:` (may be repeated)
    --rounds N       how often each side runs after the first, unmeasured round (default 5)
    --scale small    a twentieth of the data, for a quick look; `full` is what the targets mean,
                     `tiny` is for the test that every job runs
    --json FILE      where the numbers go (default `.bench/results.json`)

Each job compares two commands. Every run is a fresh process, the two sides take turns, and the
medians are reported: wall time with the interpreter's start and all imports, unless the job
says that it measures inside, and the peak resident memory of that process. Data sets are built
once, by the official package, in `.bench/`.

Jobs named `s3: …` run on a real S3 server behind a proxy that adds 30 ms to every request. For
them the number of requests is reported, and the rounds: the longest chain of requests that each
began after the one before had been answered.

A new job is a function with `@job` in a module of `tests/benchmarks/jobs/`; modules there are
found by themselves. See `tests/benchmarks/harness.py` for what it returns.
"""
