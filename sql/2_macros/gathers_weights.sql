-- Macro gathers_weights(stack): whether FSDP allocated there what it gathers of all ranks' parts of a weight.

create macro gathers_weights(stack) as
    regexp_matches(stack, 'alloc_all_gather_outputs|_alloc_padded_unsharded_flat_param')
