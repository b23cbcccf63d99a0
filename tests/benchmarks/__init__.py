"""Speed and memory beside the official package: `python -m tests.benchmarks` or `make bench`.

    --only NAME      jobs whose name contains NAME (may be repeated)
    --scale small    a twentieth of the data, for a quick look; `full` is what the targets mean
    --json FILE      where the numbers go (default `.bench/results.json`)

Each job compares two commands. Every run is a fresh process, the two sides take turns, and the
medians are reported: wall time with the interpreter's start and all imports, unless the job
says that it measures inside, and the peak resident memory of that process. Data sets are built
once, by the official package, in `.bench/`.

A new job is a function with `@job` in a module of `tests/benchmarks/jobs/`; modules there are
found by themselves. See `tests/benchmarks/harness.py` for what it returns.
"""
