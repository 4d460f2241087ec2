-- A row says that launches with an attribution belong to a part of a LoRA layer, in which direction.
--
-- direction is 'backward' for work below a range named backward and for work that the sequence rule found for a forward
-- operator, 'recompute' below a range of that name, else 'forward'. Work that several paths of one part account for (its
-- own backward range, and by sequence its forward one) counts once, under the first rule.
--
-- columns:
--   attribution_id   bigint    the set of paths, see attribution
--   path_id          bigint    the path inside the LoRA layer, see _lora_path
--   direction        varchar   'forward', 'backward' or 'recompute'

select
    attribution.attribution_id,
    place.path_id,
    case
        when attribution.rule = 'sequence' then 'backward'
        when place.is_recomputed then 'recompute'
        when place.is_below_backward then 'backward'
        else 'forward'
    end as direction
from _lora_path as place
join attribution using (path_id)
qualify row_number() over (
    partition by attribution.attribution_id, place.source_id, place.module, place.part, place.adapter, place.is_part
    order by array_position(['direct', 'sequence', 'window'], attribution.rule), place.path_id
) = 1
