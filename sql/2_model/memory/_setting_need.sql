-- A row is what the peak of memory is made of, as far as settings of a training change it (_setting_peak). In bytes.
--
-- columns:
--   total           double   the peak, NULL where no memory was recorded
--   layers          double   what its decoder layers hold
--   layer_cnt       bigint   how many of these there are
--   recomputed      double   what is computed again for the backward
--   loss            double   what is of the loss
--   largest_state   double   the largest allocation of an optimizer

select
    max(peak_bytes)::double as total,
    sum(live_bytes) filter (layer is not null)::double as layers,
    count(distinct layer) as layer_cnt,
    sum(live_bytes) filter (is_recomputed)::double as recomputed,
    sum(live_bytes) filter (is_of_loss)::double as loss,
    max(largest_bytes) filter (category = 'optimizer_state')::double as largest_state
from _setting_peak
