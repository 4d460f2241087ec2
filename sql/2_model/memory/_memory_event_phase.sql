-- A row is an event of memory with the phase of training that it fell into, NULL where nothing tells.
--
-- By what was open on its thread: the innermost annotation whose name means a phase (see phase_of), else an autograd node (backward); in allocator snapshots by the files and functions of the stack. The
-- thread of autograd's engine has no Python: in a snapshot with stacks, none of which is of a backward, what has none is its. The
-- part of the optimizer that lets gradients go is 'zero_grad'. What a graph compiled by inductor asked for is marked: one
-- call allocates for a whole model. A generation of text computes nothing to learn of.
--
-- columns:
--   source_id         integer   the input
--   process_id        bigint    the process, NULL if not recorded
--   time_ns           bigint    when, on the clock of the input
--   device            varchar   the device, 'cpu' or 'cuda:0' …
--   bytes             bigint    size, negative for a free
--   address           bigint    address, NULL if not recorded
--   allocated_bytes   bigint    in blocks of tensors in total afterwards, NULL if not recorded
--   requested_bytes   bigint    asked for by what is live afterwards, NULL if not recorded
--   reserved_bytes    bigint    reserved from the device in total afterwards, NULL if not recorded
--   thread_id         bigint    the thread that asked, NULL if not recorded
--   stack_id          bigint    name of the Python frames that asked, NULL if not recorded
--   is_before         boolean   whether it is an allocation from before the recording
--   range_id          bigint    the innermost annotation open on the thread, NULL without
--   operator_id       bigint    the outermost operator open on the thread, NULL without
--   is_quantisation   boolean   whether any operator open on the thread quantizes or dequantizes
--   phase             varchar   'data', 'h2d', 'forward', 'backward', 'recompute', 'optimizer' or 'zero_grad', NULL where nothing
--         tells
--   is_compiled       boolean   whether a graph compiled by inductor asked for it
--   made_as           varchar   'parameter': what a model asked for as it was made, loaded or moved, 'adapter_parameter': PEFT's,
--         'gathered': what FSDP gathers of parameters, 'bucket': DDP's of gradients, 'optimizer_state': what an
--         optimizer of the program's own asked for as it was made, NULL for others
--   is_generating     boolean   whether a generation of text asked for it
--   is_evaluating     boolean   whether a function that evaluates did
--   operator_end_ns   bigint    end of the outermost operator, NULL without
--   path_id           bigint    name path of the innermost annotation, NULL without

with
path_phase as (
    select
        path_id,
        contains(path, '## Call CompiledFxGraph') as is_compiled,
        list_last(
            list_filter(
                list_transform(string_split(path, '/'), lambda name: phase_of(name)),
                lambda phase: phase <> 'no_grad'  -- of which the stack says more
            )
        ) as phase
    from range_path
    where kind = 'annotation'
),
stack_phase as (
    select
        name_id,
        regexp_matches(text, 'torchinductor[^<]* call\b|torch/_inductor/') as is_compiled,
        regexp_matches(
            text,
            'torch/nn/modules/(module\.py:\d+ (to|cuda|_apply|half|float|bfloat16|to_empty|load_state_dict)\b|\w+\.py:\d+ __init__)'
            || '|torch/nn/init\.py|bitsandbytes/nn/modules\.py:\d+ (to|cuda|_quantize)\b|accelerate/utils/modeling\.py'
            || '|safetensors/torch\.py|transformers/(modeling_utils|core_model_loading|quantizers/|integrations/)\w*(\.py)?'
        ) as is_loading,
        -- as programs name what makes a model: init_weights, load_model, from_pretrained
        regexp_matches(
            text, ' (from_pretrained|\w*(init|load|create)_(\w+_)?(weight|param|parameter|model)s?(_list)?)( <|$)'
        ) as is_making,
        -- the innermost frame that is not of torch
        regexp_extract(text, '^(?:torch/[^<]*< )*([^<]+\.py:\d+ \w+)', 1) as asked_by,
        regexp_matches(text, 'transformers/generation/|\bvllm/|\bsglang/') as is_generating,
        regexp_matches(text, ' (\w+_)?(evaluat\w*|eval|validat\w*|predict(ion)?_?(step|loop)?)( <|$)') as is_evaluating,
        gathers_weights(text) as is_gathering,
        regexp_matches(text, '\bpeft/tuners/') as is_of_adapter,
        is_of_ddp_buckets(text) as is_bucket,
        case
            when regexp_matches(text, 'torch/utils/checkpoint\.py:\d+ (recompute_fn|backward|unpack_hook)') then 'recompute'
            when regexp_matches(text, 'torch/optim/optimizer\.py:\d+ zero_grad') then 'zero_grad'
            when regexp_matches(text, 'torch/optim/|bitsandbytes/optim/') then 'optimizer'
            when regexp_matches(text, 'torch/(_tensor|autograd/(__init__|graph))\.py:\d+ (backward|_engine_run_backward)')
                then 'backward'
            when contains(text, '(autograd engine)') then 'backward'
            when regexp_matches(text, '_aot_autograd/\w+\.py:\d+ \w*backward') then 'backward'
            when regexp_matches(text, ' (forward|_call_impl)\b') then 'forward'
        end as phase
    from name
    semi join (select distinct stack_id as name_id from memory_event) using (name_id)
),
-- frees have stacks only where all of an event was asked for
engine as (
    select event.source_id
    from memory_event as event
    left join stack_phase on stack_phase.name_id = event.stack_id
    group by event.source_id
    having bool_or(stack_phase.phase = 'forward' and event.bytes > 0)
        and bool_or(event.stack_id is not null and event.bytes < 0)
        and not bool_or(coalesce(stack_phase.phase = 'backward', false))
)
select
    event.*,
    coalesce(
        path_phase.phase,
        if(starts_with(operator_name.text, 'autograd::engine::evaluate_function'), 'backward', null),
        stack_phase.phase,
        if(engine.source_id is not null and event.stack_id is null and not event.is_before, 'backward', null)
    ) as phase,
    coalesce(path_phase.is_compiled or stack_phase.is_compiled, false) as is_compiled,
    case
        when stack_phase.is_gathering then 'gathered'
        when stack_phase.is_bucket then 'bucket'
        when stack_phase.is_of_adapter
            and (stack_phase.is_loading or stack_phase.is_making or ends_with(stack_phase.asked_by, ' __init__'))
            then 'adapter_parameter'
        when stack_phase.is_loading then 'parameter'
        when not stack_phase.is_making and not ends_with(stack_phase.asked_by, ' __init__') then null
        when regexp_matches(stack_phase.asked_by, '(?i)optim[^/]*\.py:\d+ __init__') then 'optimizer_state'
        when not regexp_matches(stack_phase.asked_by, '(?i)(data|loader|sampler|cache)[^/]*\.py:') then 'parameter'
    end as made_as,
    coalesce(stack_phase.is_generating, false) as is_generating,
    coalesce(stack_phase.is_evaluating, false) as is_evaluating,
    operator.end_ns as operator_end_ns,
    around.path_id
from memory_event as event
left join range as around on around.range_id = event.range_id
left join path_phase on path_phase.path_id = around.path_id
left join range as operator on operator.range_id = event.operator_id
left join name as operator_name on operator_name.name_id = operator.name_id
left join stack_phase on stack_phase.name_id = event.stack_id
left join engine on engine.source_id = event.source_id
