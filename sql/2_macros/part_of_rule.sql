-- Macro part_of_rule(rule): the part of a device's window that a rule of findings takes its saving from.
--
-- 'idle', 'compute', 'copies', 'communication', or NULL for rules that no part is known of.

create macro part_of_rule(rule) as
    case
        when rule in (
            'late_input', 'compiling_or_loading', 'blocking_copy', 'pageable_async_copy', 'synchronisation', 'lost_lead',
            'launch_bound_range', 'unified_memory', 'long_idle_gap', 'long_dependency', 'host_work', 'devices_in_turn'
        ) then 'idle'
        when rule in (
            'padding', 'math_attention', 'float32_matmul', 'layout_conversion', 'unfused_elementwise', 'recomputation',
            'dominant_kernel'
        ) then 'compute'
        when rule = 'exposed_copy' then 'copies'
        when rule = 'exposed_communication' then 'communication'
    end
