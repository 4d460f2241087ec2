-- Macro phase_of(text): the phase of training that a range's name means, NULL for none.
--
-- 'data', 'h2d', 'forward', 'backward', 'optimizer', 'recompute', 'zero_grad' or 'no_grad' (`forward without gradient`, which
-- collect opens: of a reference, a teacher, an evaluation), whatever the case and the punctuation:
-- `## backward ##`, `Forward`, `fwd`, `loss.backward`, `data copy in 19`, `opt.step`, `Optimizer.step#AdamW.step`,
-- `DistributedDataParallel.forward`, `forward: embeddings`. A module's name before it (`attention forward`) makes it a
-- part of a phase, and a part is none. This is the one place that knows such names.

create macro phase_of(text) as
    case
        -- most names have none of these
        when not regexp_matches(
            text,
            '(?i)data|batch|input|fetch|collat|h2d|htod|device|gpu|cuda|fwd|forward|bwd|backw|backprop|opt|adam|sgd|grad|'
            || 'weight|param|recomp|training_step'
        ) then null
        when regexp_matches(words_of(text), '^( [a-z]+)* zero grad\b') then 'zero_grad'
        when regexp_matches(words_of(text), '^ (recompute|recomputation)( .*)?$') then 'recompute'
        when words_of(text) = ' forward without gradient' then 'no_grad'
        when regexp_matches(text, '(?i)^[^a-z]*(backward|bwd) ?[:/]')
            or regexp_matches(
                words_of(text),
                '^( (loss|scaled loss|model|accelerator|engine|deep speed engine|pl profile|pl profile strategy .*|train|'
                || 'training|run|do|step|gradient))* (backwards?|bwd|backprop|backpropagation)'
                || '( (pass|only|prop|propagation|step|and sync|call|[0-9]+))*$'
            ) then 'backward'
        when regexp_matches(text, '(?i)^[^a-z]*(forward|fwd) ?[:/]')
            or regexp_matches(words_of(text), '^ pl profile strategy .* training step$')
            or regexp_matches(
                words_of(text),
                '^( (model|net|network|module|accelerator|engine|deep speed engine|(custom )?fsdp|(distributed )?data parallel|'
                || 'ddp|fully sharded data parallel|(v2 )?gpu model runner|train|training|run|do|step))* (forwards?|fwd)'
                || '( (pass|only|prop|propagation|step|and loss|loss|call|[0-9]+))*$'
            ) then 'forward'
        when regexp_matches(text, '(?i)^[^a-z]*optimi[sz]er ?[:/]')
            or regexp_matches(words_of(text), '^( .*)? optimizer( stage ?[0-9]+)? step( [0-9]+)?$|^ optimizer step .* step$')
            or regexp_matches(words_of(text), '^( (run|do))* (optimi[sz]er|optim|opt|adam ?w?|sgd)( (step|update|[0-9]+))*$')
            or regexp_matches(
                words_of(text), '^ (weights?|param(eter)?s?) update$|^ (update|apply) (weights|param(eter)?s|grad(ient)?s)$'
            ) then 'optimizer'
        when regexp_matches(
            words_of(text),
            '^( (copy|move|transfer|send|batch|data|inputs?))* (h2d|htod|hto d|host to device|to (the )?(device|gpu|cuda))'
            || '( (copy|transfer|[0-9]+))*$'
        ) then 'h2d'
        when regexp_matches(words_of(text), '^( (train|training|run|do))* (batch|mini ?batch|training batch)( [0-9]+)*$') then null
        when regexp_matches(
            words_of(text),
            '^ enumerate data ?loader|^ .* dataloader next$|^ data collator\b|'
            || '^ (fetch|data ?loading|collate|collation)( [0-9]+)?$|'
            || '^( dali)+ data reader run( [0-9]+)?$'  -- waits for what DALI reads
        )
            or regexp_matches(
                words_of(text),
                '^( (train|training|next|get|load|loading|fetch|fetching|read|prepare|wait for|waiting for|pl profile))* '
                || '(data ?loader|data|batch|inputs?|mini ?batch|training batch)'
                || '( (load|loading|loader|fetch|fetching|wait|next|copy in|copy|prep|preparation|iter|queue|[0-9]+))*$'
            ) then 'data'
    end
