-- Macro step_number(text): the number of a range that is called a numbered step, else NULL.
--
-- The text ends in step, iter or iteration and a number: `step 3`, `ProfilerStep#12`, `## step 3 ##`, `Iteration: 4`,
-- `train_step_5`, `Step 3/100`, `Step 10 to 20` (its first), `iteration7`. What follows the number may close, no more: in
-- `step 1: load` it numbers what is done, not how often. What is done now and then or beside the training is numbered by its
-- step, and is none: `save step 100`, `load iteration 7`.

create macro step_number(text) as
    case
        when not regexp_matches(text, '(?i)(?:step|iter)\D*\d') then null  -- most names
        when regexp_matches(
            words_of(text),
            ' (save|saving|log|logging|load|loading|prefetch|fetch|read|checkpoint|ckpt|scheduler|sched|hook|callback|report)\b'
        ) then null
        else try_cast(
            regexp_extract(
                text,
                '(?i)(?:iteration|(?:step|iter|iteration)s?[ #_:=\[(-]+)([0-9]{1,18})\s*(?:(?:/|of|to)\s*[0-9]+)?[\s\])>#:.=*-]*$',
                1
            ) as bigint
        )
    end
