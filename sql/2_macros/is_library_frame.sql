-- Macro is_library_frame(frame): whether a frame of Python lies in what programs are built on.
--
-- Not the models of transformers: they are what a program trains. Of torch alone 'forward' says nothing of which layer it is.
-- Paths may be those of Windows, and those of packages may begin with where they are installed.

create macro is_library_frame(frame) as
    not regexp_matches(frame, '^(.*[/\\](site|dist)-packages[/\\])?transformers[/\\]models[/\\]')
    and regexp_matches(
        frame,
        '^(.*[/\\](site|dist)-packages[/\\])?(accelerate|apex|bitsandbytes|deepspeed|einops|flash_attn|lightning|lorabench|peft|'
        || 'pytorch_lightning|torch|torchao|torchvision|transformers|triton|trl|xformers)[/\\]'
        || '|/lib/python[0-9.]+/[^/]*[.]py:|^[A-Za-z]:[/\\](.*[/\\])?[Ll]ib[/\\][^/\\]*[.]py:'
    );
