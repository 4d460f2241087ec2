-- Macro is_before_ampere(device_name): whether a device is of Volta or Turing: its tensor cores know 16 bits of one
-- kind, and FlashAttention does not run on it.

create macro is_before_ampere(device_name) as
    regexp_matches(device_name, '\b(V100|GV100|T4|TITAN (V|RTX)|Quadro RTX|RTX 20\d\d)\b')
