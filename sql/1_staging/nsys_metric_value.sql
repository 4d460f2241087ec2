-- What a counter's number means: percentages become fractions, clocks Hz.
--
-- Clocks are called MHz and are Hz, of which the column may keep 32 bits with a sign: no clock is below a megahertz or
-- above 2^32 Hz. What is much larger is none of both, and left out by who asks.

case
    when not is_clock then number / 100
    when number < 0 then number + 4294967296
    when number < 1000000 then number * 1000000
    else number
end
