-- A row is one kind of copy (CUpti_ActivityMemcpyKind) with its direction and the name that nsys prints for it.
--
-- Kept here because nsys' own ENUM tables are absent before schema 3.0.0 and partial after 3.20.

select *
from (
    values
        (0, 'unknown', '[CUDA memcpy Unknown]'),
        (1, 'HtoD', '[CUDA memcpy HtoD]'),
        (2, 'DtoH', '[CUDA memcpy DtoH]'),
        (3, 'HtoA', '[CUDA memcpy HtoA]'),
        (4, 'AtoH', '[CUDA memcpy AtoH]'),
        (5, 'AtoA', '[CUDA memcpy AtoA]'),
        (6, 'AtoD', '[CUDA memcpy AtoD]'),
        (7, 'DtoA', '[CUDA memcpy DtoA]'),
        (8, 'DtoD', '[CUDA memcpy DtoD]'),
        (9, 'HtoH', '[CUDA memcpy HtoH]'),
        (10, 'PtoP', '[CUDA memcpy PtoP]'),
        (11, 'HtoD', '[CUDA Unified Memory memcpy HtoD]'),
        (12, 'DtoH', '[CUDA Unified Memory memcpy DtoH]'),
        (13, 'DtoD', '[CUDA Unified Memory memcpy DtoD]')
) as kind (memcpy_kind_id, copy_kind, name)
