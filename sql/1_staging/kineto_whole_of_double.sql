-- The whole number that a double of kineto_typed is; NULL for a fraction, and from 2^53 on, where doubles have gaps.

if(number = trunc(number) and abs(number) < 9007199254740992, number::bigint, null)
