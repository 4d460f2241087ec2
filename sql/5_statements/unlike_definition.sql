-- A row is how many rows a table and its definition do not have in common, and one of them.
--
-- given: table, definition, columns

with
kept as (
    select $columns
    from $table
),
meant as (
    select $columns
    from $definition
),
unlike as (
    select 'kept' as which, *
    from (from kept except all from meant)
    union all
    select 'by its definition' as which, *
    from (from meant except all from kept)
)
select count(*) as unlike_cnt, any_value(unlike)::varchar as example
from unlike
