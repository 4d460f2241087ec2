-- A row is an idle gap between two busy stretches of a device and the one rule that it is blamed on (_explained_gap).
--
-- columns:
--   source_id        integer   the input
--   device_id        integer   the device, NULL without
--   gpu_op_id        bigint    the operation that ended it
--   start_ns         bigint    begin
--   end_ns           bigint    end
--   idle_ns          bigint    its length
--   saving_ns        double    its share of the idle time of all devices: what the input would save without it, at most
--   cause            varchar   'host', 'dependency' or 'kernel_wait', as in idle_gap
--   waited_name_id   bigint    the call in which the CPU waited for the GPU until the gap had begun, of unrecorded_work in the
--         gap; NULL without
--   waited_kind      varchar   its kind, as in sync_summary, NULL likewise
--   rule             varchar   the rule, NULL for none
--   path_id          bigint    name path of the range that is to be changed, NULL outside all ranges
--   compiled         varchar   what was compiled or loaded, else NULL
--   ended_by_ns      bigint    how long the operation that ended it takes

select * exclude (is_lead)
from _explained_gap
where not is_lead
