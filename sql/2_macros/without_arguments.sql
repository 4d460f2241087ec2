-- Macro without_arguments(text): a kernel's name without the types of its arguments.
--
-- `void evaluate(float *, curandStateXORWOW *)` becomes `void evaluate`: what a kernel gets does not say what it does.
-- Arguments of templates stay.

create macro without_arguments(text) as
    regexp_replace(text, '\([^()]*(\([^()]*(\([^()]*\)[^()]*)*\)[^()]*)*\)( const)?$', '')
