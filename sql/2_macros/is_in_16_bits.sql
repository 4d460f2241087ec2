-- Macro is_in_16_bits(text): whether a kernel's name says that it multiplies numbers of 16 bits or fewer.

create macro is_in_16_bits(text) as
    -- of cuBLAS on Hopper and Blackwell the first letter is the type of what it multiplies
    regexp_matches(
        text,
        '(?i)f16|fp16|half|bfloat|float16|fp8|fp4|float8|e4m3|e5m2|[is]8\b|int[48]|[48]bit|16816|marlin|nvjet_(sm\d+_)?[htqo][a-z]+_'
        || '|(^|[^a-z])(h\d*|i\d+)(gemm|cudnn)|h884'
    )
