-- Macro sample_stddev(x): the sample standard deviation of integers, 0 for a single one.
--
-- Sums of integers are exact in any order; stddev_samp() adds doubles, and its last digits change with the number of
-- threads. n·Σx² - (Σx)² fits 128 bits while n·max|x| is below 1e19 (a million operations of two hours each) and
-- max|x| below 1e15; beyond that doubles must do.

create macro sample_stddev(x) as
    case
        when count(x) = 1 then 0.0
        when max(abs(x)) < 1000000000000000 and count(x)::double * max(abs(x)) < 1e19 then
            sqrt(
                (count(x) * sum(x::hugeint * x) filter (where abs(x) < 1000000000000000) - sum(x) * sum(x))::double
                / (count(x)::double * (count(x) - 1))
            )
        else stddev_samp(x)
    end
