-- Macro said_counters(sm_active, tensor_active, dram): what counters say of a kernel, to follow other evidence; NULL without.

create macro said_counters(sm_active, tensor_active, dram) as
    '; counters: ' || nullif(concat_ws(', ',
        format('multiprocessors {:.0f} %', 100 * sm_active),
        format('tensor cores {:.0f} %', 100 * tensor_active),
        format('memory bandwidth {:.0f} %', 100 * dram)
    ), '')
