-- The whole number that a text of kineto_text is, to the last digit; NULL for a fraction and any other text.

coalesce(
    try_cast(if(regexp_full_match(number, '-?[0-9]{1,19}(\.0*)?'), regexp_replace(number, '\..*', ''), null) as bigint),
    if(
        try_cast(number as double) = trunc(try_cast(number as double)) and abs(try_cast(number as double)) < 9007199254740992,
        try_cast(number as double)::bigint,
        null
    )
)
