-- A row is the start of a step, and what was live on a device then.
--
--     live     ▗▄▄▖ ▗▄▄▖ ▗▄▄▖
--            ▗▄▟████▟████▟███▙     the same from step to step, or it grows
--     turn   1     2     3     4
--
-- See _memory_border for what steps are.
--
-- columns:
--   source_id    integer   the input
--   process      bigint    the process, -1 if not recorded
--   device       varchar   the device
--   turn         bigint    number, from 1
--   time_ns      bigint    when, on the clock of the input
--   live_bytes   bigint    live just before

select
    border.source_id,
    border.process,
    border.device,
    border.turn,
    border.time_ns,
    level.live_bytes
from _memory_border as border
asof join _memory_moment as level
    on level.source_id = border.source_id
    and level.process = border.process
    and level.device = border.device
    and level.time_ns < border.time_ns
