-- Macro is_outermost(source, thread, start, finish, id): whether a range lies within none of its thread that began
-- before it.
--
-- For the `qualify` of a statement whose rows are ranges.

create macro is_outermost(source, thread, start, finish, id) as
    coalesce(
        finish > max(finish) over (
            partition by source, thread order by start, finish desc, id rows between unbounded preceding and 1 preceding
        ),
        true
    )
