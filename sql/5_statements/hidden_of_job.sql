-- Updates what_if: what hiding communication saves is what the view what_if of several ranks has: a rank alone does not know it.

update what_if as change
set
    step_ns = (hidden.step_ns * (1 - hidden.saving_frac))::bigint,
    saving_ns = (hidden.step_ns * hidden.saving_frac)::bigint,
    saving_frac = hidden.saving_frac,
    replay_error_frac = hidden.error_frac,
    note = hidden.note
from (
    select step.step_ns, found.*
    from _hidden_communication as found
    join _mean_step as step using (source_id)
) as hidden
where change.change = 'hide-communication=*' and change.source_id = hidden.source_id
