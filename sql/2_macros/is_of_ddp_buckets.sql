-- Macro is_of_ddp_buckets(stack): whether DDP allocated its buckets of gradients there, at first or in the order of gradients.

create macro is_of_ddp_buckets(stack) as
    regexp_matches(stack, '^(\(\w+\) < )?torch/nn/parallel/distributed\.py:\d+ (_ddp_init_helper|_pre_forward)( <|$)')
