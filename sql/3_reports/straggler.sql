-- A row is one step of one rank: how long it kept the others waiting, or waited for them, and why.
--
-- Ranks that train together meet in collectives, so their steps last equally long; the one that comes last waits least
-- in them. Where they have met in a collective that kept them from computing (_rank_way), a rank is judged by how long it
-- takes from there to the next ones of the group, without what it did nothing but wait for others (found_by 'arrival'; no
-- clocks are compared): each moment in which others do nothing but wait is shared equally by the ranks that are not
-- there yet. late_ns is by how much it came behind the median of the ranks, in the group that waited longest for it;
-- all-reduces beside the backward, to which it comes as late as before, count once. Before ranks have met clocks say who
-- comes late, where they are known well enough (clock_offset), and no more than its way from the start of the first step
-- was longer. In steps without any of that (found_by 'own time') it is judged by own_ns in the same way: the step
-- without the time in which nothing but communication ran, idle time included; of a stage of a pipeline, which idles by
-- its place, its compute alone. A straggler is late, and kept others waiting, for more than the threshold straggler_frac
-- of the step, and others wait for it at least half as long as for the one they wait for longest: two that are equally
-- late both are stragglers. Of an even number of ranks the median is the lower of the two in the middle.
--
-- cause is what the rank spent more on than the median of the ranks of its stage, since it came to the collective before of
-- that group (own time: in the step): the largest of compute, copies, exposed communication and idle, idle by what it is
-- blamed on (the rules of finding). On CPUs operators compute (within a range in an operator, as a hook in the backward, only the
-- operators in it) and gloo communicates. Steps are matched by their numbers, several
-- of one number added up; inputs without steps count as one step each. Only inputs of one kind that say their rank (or
-- have it in their name) are compared.
--
-- columns:
--   step                       bigint    number of the step, NULL for an input without steps
--   rank                       integer   rank of the input
--   wall_ns                    bigint    duration of the step, on the CPU, or on the GPU where the CPU runs ahead; without steps the window of the GPU work
--   compute_ns                 bigint    time with compute on a device, devices added up
--   exposed_communication_ns   bigint    time with communication and without compute
--   own_ns                     bigint    wall_ns - exposed_communication_ns; compute_ns for a stage of a pipeline
--   lag_ns                     bigint    own_ns - the median of the ranks
--   late_ns                    bigint    lateness at the collectives in which others waited for it, 0 where it was not; NULL where that is not known
--   kept_waiting_ns            bigint    its part of the summed time in which others did nothing but wait (own time: had less of their own); NULL where that is not known
--   is_straggler               boolean   whether it is late enough, and others waited for it long enough
--   found_by                   varchar   'arrival' or 'own time'
--   cause                      varchar   what it spent more on than the others, NULL where it was not late
--   cause_ns                   bigint    how much more
--   cause_place                varchar   idle: the innermost range or Python frame of the CPU in the middle of the longest gap
--   host_lag_ns                bigint    median lag_ns of the ranks of its machine, NULL if not recorded
--   stage_lag_ns               bigint    median lag_ns of the ranks of its stage, NULL without a pipeline
--   rank_cnt                   bigint    ranks that have the step
--   source_id                  integer   the input, see trace_info

select
    judged.* exclude (is_by_arrival, collective_ids, cause, cause_ns, host_lag_ns, stage_lag_ns, rank_cnt, source_id),
    if(judged.is_by_arrival, 'arrival', 'own time') as found_by,
    judged.cause,
    judged.cause_ns,
    place.place as cause_place,
    judged.host_lag_ns,
    judged.stage_lag_ns,
    judged.rank_cnt,
    judged.source_id
from _straggler as judged
left join _straggler_place as place on place.source_id = judged.source_id and place.step is not distinct from judged.step
order by judged.step, judged.rank, judged.source_id
