-- Macro element_bytes(type): the bytes of an element of a type, NULL for an unknown one.
--
-- Types are torch's ('BFloat16', 'Long') or those of C++ ('c10::BFloat16', 'long int').

create macro element_bytes(type) as
    case
        when regexp_matches(lower(type), '^(complexdouble|c10::complex<double>)$') then 16
        when regexp_matches(lower(type), '^(double|u?long|(unsigned )?long( long)?( int)?|u?int64|complexfloat|c10::complex<float>)$') then 8
        when regexp_matches(lower(type), '^(float|(unsigned )?int|u?int32|qint32|complexhalf|c10::complex<c10::half>)$') then 4
        when regexp_matches(lower(type), '^((c10::)?b?(float16|half)|(unsigned )?short( int)?|u?int16)$') then 2
        when regexp_matches(lower(type), '^(byte|char|bool|(un)?signed char|q?u?int8|(c10::)?float8_.*)$') then 1
    end
