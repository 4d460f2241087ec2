-- A row is a name path of a part of a LoRA layer, or of one of another kind of adapter: base, lora_A, ia3_l …, or an
-- adapter's own share of all but the first.
--
-- Names are those of lorabench.annotate() and PEFT: q_proj/lora_A/NAME; an adapter's range around the parts
-- (q_proj/adapter NAME/lora_A) is understood, too. Only ranges that a person opened count. A backward path lies below a
-- range named backward, or all its ranges lie within such ranges of another thread; a recomputed one below recompute.
--
-- columns:
--   path_id             bigint    the name path
--   source_id           integer   the input
--   module              varchar   the name of the layer in its block
--   part                varchar   'base', 'lora_A', 'lora_B' or a part of another kind of adapter
--   adapter             varchar   the adapter as the path has it, NULL where it names none
--   is_part             boolean   whether the path is the part itself, not an adapter's own share of it
--   is_below_backward   boolean   whether it lies in a backward
--   is_recomputed       boolean   whether it lies below a range named recompute

with
read as (
    select
        path_id,
        source_id,
        path,
        regexp_extract(
            path,
            '^(?:.*?/)?([^/]+)/(?:(adapter[^/]*)/)?(base|base_layer|'
            -- PEFT's names, vocabulary.ADAPTER_PARTS
            || 'lora_[ABE]|lora_embedding_[AB]|lora_magnitude_vector|vera_[AB]|vera_lambda_[bd]|ia3_l|'
            || 'oft_R|boft_[Rs]|hada|hada_[wt][12](?:_[ab])?|lokr|lokr_[wt][12](?:_[ab])?|hra_u|'
            || 'c3a_kernel|fourierft_spectrum|delora_[AB]|delora_lambda|hira_[AB]|road_alpha|'
            || 'road_theta|shira_weight|miss_block|randlora_[AB]|randlora_lambda|randlora_gamma|'
            || 'vblora_logits_[AB]|vblora_vector_bank'
            || ')(?:/([^/]+))?$',
            ['module', 'above', 'part', 'below']
        ) as name
    from range_path
    where kind = 'annotation'
),
found as (
    select * from read where name.part <> ''
),
backward as (
    select range.source_id, range.start_ns, range.end_ns
    from range
    join range_path using (path_id)
    where range_path.kind = 'annotation' and regexp_matches(range_path.path, '(^|/)backward$')
),
-- of autograd's own threads, on a GPU: what no range on the thread itself calls backward
meanwhile as (
    select range.path_id
    from found
    join range using (path_id)
    asof left join backward on range.source_id = backward.source_id and range.start_ns >= backward.start_ns
    where not regexp_matches(found.path, '(^|/)(backward|forward)/')
    group by range.path_id
    having bool_and(coalesce(range.end_ns <= backward.end_ns, false))
)
select
    path_id,
    source_id,
    regexp_replace(name.module, '^(linear \d+x\d+) (backward|recompute)$', '\1') as module,
    if(name.part = 'base_layer', 'base', name.part) as part,
    coalesce(nullif(name.below, ''), nullif(name.above, '')) as adapter,
    name.below = '' as is_part,
    regexp_matches(path, '(^|/)(linear \d+x\d+ )?backward/') or path_id in (from meanwhile) as is_below_backward,
    regexp_matches(path, '(^|/)(linear \d+x\d+ )?recompute/') as is_recomputed
from found
where name.module <> '' and (name.part not in ('base', 'base_layer') or name.below = '')
