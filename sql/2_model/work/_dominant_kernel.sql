-- A row is a kernel that takes a tenth of the time or more of an input in which the GPU computes a third of the time or more.
--
-- Of its time counts what lies on the critical path, and what no other rule is blamed for (_blamed_kernel).
--
-- columns:
--   source_id   integer   the input
--   name_id     bigint    the kernel's name
--   path_ns     double    the time that its share is one of, see _mean_window

select kernel.source_id, kernel.name_id, busy.path_ns
from _blamed_kernel as kernel
join _mean_window as busy using (source_id)
where kernel.rule is null and 3 * busy.compute_ns >= busy.window_ns
group by kernel.source_id, kernel.name_id, busy.path_ns
having sum(kernel.critical_ns) >= (select value from threshold where name = 'severe_frac') * busy.path_ns
