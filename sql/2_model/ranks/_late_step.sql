-- A row is a rank that is late in a step, and by what.
--
-- columns:
--   source_id     integer   the rank's input
--   step          bigint    number of the step
--   is_by_links   boolean   whether by communication that nothing hides
--   is_by_work    boolean   whether ranks of the same kind of input are late in this step mostly by compute

select
    source_id,
    late.step,
    late.cause is not distinct from 'exposed communication' as is_by_links,
    coalesce(
        2 * sum(late.cause_ns) filter (late.cause = 'compute') over same_step > sum(late.cause_ns) over same_step, false
    ) as is_by_work
from _straggler as late
join source using (source_id)
where late.is_straggler and late.step is not null
window same_step as (partition by source.kind, late.step)
