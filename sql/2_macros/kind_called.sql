-- Macro kind_called(kind): what records files of that kind, in a person's words.

create macro kind_called(kind) as case kind when 'kineto' then 'torch.profiler' when 'snapshot' then 'allocator snapshot' else kind end
