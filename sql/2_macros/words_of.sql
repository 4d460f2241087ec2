-- Macro words_of(text): the words of a name in lower case, a blank before each.
--
-- `loss.backward()` and `LossBackward` are both ' loss backward'.

create macro words_of(text) as
    ' ' || trim(regexp_replace(lower(regexp_replace(text, '([a-z])([A-Z])', '\1 \2', 'g')), '[^a-z0-9]+', ' ', 'g'))
