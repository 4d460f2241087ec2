-- Macro limit_advice(kind, is_torch): what makes work cheaper that is limited by what counters say, see limited_by; '' where that is not known.

create macro limit_advice(kind, is_torch) as
    case kind
        when 'memory' then 'Memory is its limit, so bytes are what counts. '
        when 'tensor cores' then 'Tensor cores are its limit, so what counts is fewer products, and fewer bits. '
        when 'instructions' then 'Instructions other than those of tensor cores are its limit. '
        when 'idle multiprocessors' then
            'It leaves multiprocessors idle: give it more work at once'
            || if(is_torch, ' (larger batches, several adapters in one pass). ', '. ')
        when 'latency' then
            'It waits for memory and for its own results while units are free: more work at once'
            || if(is_torch, ' (larger batches, several adapters in one pass)', '') || ' hides that. '
        else ''
    end
