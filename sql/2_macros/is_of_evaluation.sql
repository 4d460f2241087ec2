-- Macro is_of_evaluation(text): whether a range's name says that it evaluates, and does not train.

create macro is_of_evaluation(text) as
    regexp_matches(words_of(text), ' (eval|evaluate|evaluation|val|valid|validate|validation|test|testing)\b')
