-- Macro counted_frac(counted_ns, busy_ns, sample_ns): what counters say of work that ran for busy_ns of the sample_ns that they were sampled for.
--
-- They say whole percents of the samples' time: NULL where the work fills less than a tenth of that, and where they
-- count more than the work can have done, as beside what the file does not hold. Six digits do not depend on the order
-- in which they are added up.

create macro counted_frac(counted_ns, busy_ns, sample_ns) as
    case when 10 * busy_ns >= sample_ns and counted_ns <= 1.05 * busy_ns then round(least(counted_ns / nullif(busy_ns, 0), 1), 6) end
