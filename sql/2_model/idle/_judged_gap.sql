-- A row is an idle gap that its rule is blamed for (_explained_gap), of the time that findings are about (_steady_time).
--
-- A gap that begins before that time counts from its start on.
--
-- columns:
--   source_id        integer   the input
--   device_id        integer   the device, NULL without
--   gpu_op_id        bigint    the operation that ended it
--   start_ns         bigint    begin, not before that time
--   end_ns           bigint    end
--   idle_ns          bigint    its length from that begin on
--   saving_ns        double    its share of the idle time of all devices, for that length: what the input would save without it,
--         at most
--   cause            varchar   'host', 'dependency' or 'kernel_wait', as in idle_gap
--   waited_name_id   bigint    the call in which the CPU waited for the GPU until the gap had begun, of unrecorded_work in the
--         gap; NULL without
--   waited_kind      varchar   its kind, as in sync_summary, NULL likewise
--   rule             varchar   the rule, NULL for none
--   path_id          bigint    name path of the range that is to be changed, NULL outside all ranges
--   compiled         varchar   what was compiled or loaded, else NULL
--   ended_by_ns      bigint    how long the operation that ended it takes

select
    gap.* exclude (is_lead) replace (
        greatest(gap.start_ns, steady.start_ns) as start_ns,
        gap.end_ns - greatest(gap.start_ns, steady.start_ns) as idle_ns,
        gap.saving_ns * (gap.end_ns - greatest(gap.start_ns, steady.start_ns)) / gap.idle_ns as saving_ns
    )
from _explained_gap as gap
join _steady_time as steady using (source_id)
where gap.end_ns > steady.start_ns and gap.end_ns <= steady.end_ns
