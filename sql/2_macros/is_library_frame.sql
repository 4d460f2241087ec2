-- A row is no row: this is the macro is_library_frame(frame), whether a frame of Python lies in what programs are built on.
--
-- Not the models of transformers: they are what a program trains. Of torch alone 'forward' says nothing of which layer it is.

create macro is_library_frame(frame) as
    not starts_with(frame, 'transformers/models/')
    and (
        regexp_matches(frame, '^(accelerate|apex|bitsandbytes|deepspeed|einops|flash_attn|lightning|lorabench|peft|'
            || 'pytorch_lightning|torch|torchao|torchvision|transformers|triton|trl|xformers)/')
        or regexp_matches(frame, '/lib/python[0-9.]+/[^/]*[.]py:')
    )
