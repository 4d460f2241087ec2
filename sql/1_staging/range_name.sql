-- A row is one distinct text of a range, with the name that its calls share.
--
-- What differs from call to call is cut from the name, so that calls of one operator or step are one name path:
-- emit_nvtx's ', seq = 45440, op_id = 322567, sizes = […]', and the number behind step, iter or iteration
-- (ProfilerStep#12, ## step 3 ##, Step 3/100), and that of a recompilation (Torch-Compiled Region: 2/1). The text itself
-- stays in the column text_id of the range.
--
-- needs: range_text

select
    text_id,
    text,
    regexp_replace(
        regexp_replace(text, ', (seq = [0-9]+|op_id = [0-9]+|sizes = \[).*$|^(Torch-Compiled Region: [0-9]+)/[0-9]+', '\2'),
        '(?i)(?:(iteration)|(step|iter|iteration)s?[ #_:=\[(-])[ #_:=\[(-]*[0-9]+(?: *(?:/|of) *[0-9]+)?[\])]?( *[#*=-]*)$',
        '\1\2\3'
    ) as name,
    try_cast(regexp_extract(text, ', seq = ([0-9]+)', 1) as bigint) as sequence_number,
    regexp_matches(text, ', (seq|op_id) = [0-9]+') as is_operator,
    regexp_matches(text, '^(autograd::engine::|torch::autograd::|[A-Za-z0-9_:]+Backward[0-9]*, )')
        and regexp_matches(text, ', (seq|op_id) = [0-9]+') as is_backward
from range_text
