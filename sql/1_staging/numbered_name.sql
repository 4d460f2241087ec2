-- A row is one distinct text of a range that holds numbers which may count its calls, with the name without them.
--
-- Numbers stand by themselves: those of `conv1`, `h2d`, `bf16` and of module paths (`layers.11.self_attn`) are part of a
-- name, and so are those behind a word for things of which a program has many (`layer 3`, `adapter_2`, `stage 1`). A number
-- at the end goes with what separates it (`data copy in 19` is `data copy in`), others and several become `#` (`Step # to #`).
-- place is that of the text among those that share a name, by their numbers.
--
-- needs: range_name

with
marked as (
    select
        text_id,
        regexp_replace(
            regexp_replace(text, '([ #_:=\[(/-])[0-9]+([ #_:=\])/,;-]|$)', '\1<#>\2', 'g'),
            '([ #_:=\[(/-])[0-9]+([ #_:=\])/,;-]|$)', '\1<#>\2', 'g'
        ) as marked,
        regexp_extract_all(text, '[0-9]+') as numbers
    from range_name
    where not is_operator
        and regexp_matches(text, '[ #_:=\[(/-][0-9]')
        and not contains(text, '<#>')
        and not regexp_matches(
            words_of(text),
            ' ([a-z]|layers?|blocks?|stages?|adapters?|loras?|lora [ab]|experts?|heads?|ranks?|gpus?|devices?|cuda|streams?|'
            || 'workers?|proc|process|threads?|nodes?|hosts?|groups?|levels?|shards?|parts?|partitions?|buckets?|models?|'
            || 'modules?|encoders?|decoders?|transformers?|attn|attention|mlp|ffn|norm|ln|bn|conv|linear|dense|fc|proj|relu|gelu|'
            || 'pool|bottleneck|cells?|units?|embed|embeddings?|size|bs|len|dim|rank|version|torch|tp|pp|dp|ep|cp) [0-9]'
        )
)
select
    text_id,
    replace(
        if(regexp_matches(marked, '<#>.*<#>'), marked, regexp_replace(marked, '[ #_:=\[(/-]+<#>[\])]?$', '')), '<#>', '#'
    ) as name,
    dense_rank() over (order by marked) - 1 as family,
    rank() over (
        partition by marked
        order by list_transform(numbers, lambda number: try_cast(number as hugeint)), text_id
    ) as place
from marked
where contains(marked, '<#>')
