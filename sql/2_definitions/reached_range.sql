-- A row says that a range accounts for a GPU operation: each pair once.
--
-- From the innermost range that each rule finds for the launching call (its owner, and the rows of reach) up the tree of
-- ranges. What the sums by range mean follows from this.
--
-- columns:
--   gpu_op_id   bigint    the operation
--   range_id    bigint    a range around its launch, by any rule

with recursive
innermost as (
    select gpu_op_id, range_id, false as is_alone
    from gpu_op
    where range_id is not null
    union all
    select gpu_op.gpu_op_id, reach.range_id, reach.is_alone
    from gpu_op
    join reach using (api_call_id)
),
climb as (
    from innermost
    union
    select climb.gpu_op_id, range.parent_id, false
    from climb
    join range using (range_id)
    where not climb.is_alone and range.parent_id is not null
)
select distinct gpu_op_id, range_id
from climb
