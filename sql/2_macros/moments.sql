-- Macro moments(x, is_meant): of numbers that are meant how many they are, their sum and the sum of their squares.

create macro moments(x, is_meant) as
    [
        count(x) filter (is_meant),
        coalesce(sum(x) filter (is_meant), 0),
        coalesce(sum(x * x) filter (is_meant), 0)
    ]
