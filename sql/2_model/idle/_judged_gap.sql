-- A row is an idle gap that its rule is blamed for (_explained_gap), of the time that findings are about (_steady_time).
--
-- A gap that begins before that time counts from its start on. The columns are those of _blamed_gap.

select
    gap.* exclude (is_lead) replace (
        greatest(gap.start_ns, steady.start_ns) as start_ns,
        gap.end_ns - greatest(gap.start_ns, steady.start_ns) as idle_ns,
        gap.saving_ns * (gap.end_ns - greatest(gap.start_ns, steady.start_ns)) / gap.idle_ns as saving_ns
    )
from _explained_gap as gap
join _steady_time as steady using (source_id)
where gap.end_ns > steady.start_ns and gap.end_ns <= steady.end_ns
