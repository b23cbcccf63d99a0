"""The queries of icectl-tables(7), which the tests run as they are printed there."""

from __future__ import annotations

COMMITS_THAT_TOUCHED_A_REGION = """
select s.flushed_at, c.snapshot_id, s.message, count(*) as chunks
from changes c join snapshots s on s.snapshot_id = c.snapshot_id
where c.path = '/temperature' and c.kind = 'updated_chunk'
  and c.coordinates[0] between 2 and 3
group by s.flushed_at, c.snapshot_id, s.message
order by s.flushed_at
"""

CHUNKS_SHARED_BY_TWO_BRANCHES = """
with chunks as (
  select r.name as branch, c.path, c.chunk_id, c.length
  from chunk_refs c join refs r on r.snapshot_id = c.snapshot_id
  where c.kind = 'native' and r.kind = 'branch'
)
select a.path, count(*) as shared_chunks, sum(a.length) as shared_bytes
from chunks a join chunks b on a.chunk_id = b.chunk_id
where a.branch = 'main' and b.branch = 'experiment'
group by a.path
order by a.path
"""

GROWTH_BY_MONTH_AND_ARRAY = """
with first_seen as (
  select min_by(c.path, s.flushed_at) as path, max(c.length) as length,
         min(s.flushed_at) as since
  from chunk_refs c join snapshots s on s.snapshot_id = c.snapshot_id
  where c.kind = 'native'
  group by c.chunk_id
)
select date_format(since, 'yyyy-MM') as month, path,
       count(*) as new_chunks, sum(length) as new_bytes
from first_seen
group by date_format(since, 'yyyy-MM'), path
order by month, path
"""
