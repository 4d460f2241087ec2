-- A row is a category of Kineto events that lorabench reads, and what its events become.
--
-- Categories were renamed in 2021; AMD's HIP calls come as cuda_runtime too.

select *
from (
    values
        ('cpu_op', 'range', 'operator'),
        ('Operator', 'range', 'operator'),
        ('user_annotation', 'range', 'annotation'),
        ('python_function', 'range', 'python'),
        ('cuda_runtime', 'api_call', null),
        ('Runtime', 'api_call', null),
        ('cuda_driver', 'api_call', null),
        ('xpu_runtime', 'api_call', null),
        ('mtia_runtime', 'api_call', null),
        ('privateuse1_runtime', 'api_call', null),
        ('privateuse1_driver', 'api_call', null),
        ('kernel', 'gpu_op', 'kernel'),
        ('Kernel', 'gpu_op', 'kernel'),
        ('gpu_memcpy', 'gpu_op', 'memcpy'),
        ('Memcpy', 'gpu_op', 'memcpy'),
        ('gpu_memset', 'gpu_op', 'memset'),
        ('Memset', 'gpu_op', 'memset'),
        ('cuda_sync', 'sync', null),
        ('overhead', 'overhead', null)
) as category (category, becomes, kind)
