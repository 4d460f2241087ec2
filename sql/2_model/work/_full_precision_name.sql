-- A row is a name of kernels that say they multiply in 32 bits, without tensor cores.
--
-- columns:
--   name_id   bigint    the name
--   fewer     integer   how many times fewer products it makes than the operation has: 4 of Winograd's transformation, else 1

select name_id, if(regexp_matches(text, '(?i)winograd'), 4, 1) as fewer
from name
where regexp_matches(text, '(?i)sgemm|_simt_|ffma|scudnn|(engine|convolve)<float|^Cijk_A\w{3}_B\w{3}_S_?B_')
    and not regexp_matches(text, '(?i)<(__half|half|__nv_bfloat)|_fp16_')
