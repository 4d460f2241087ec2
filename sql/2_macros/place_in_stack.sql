-- Macro place_in_stack(stack): where an allocation was asked for, of its frames 'file:line function < …'.
--
-- The innermost frame and, where that lies in a library, the innermost one that does not, if there is one.

create macro place_in_stack(stack) as
    string_split(stack, ' < ')[1]
    || if(
        is_library_frame(string_split(stack, ' < ')[1]),
        coalesce(
            ' in ' || list_filter(
                string_split(stack, ' < '),
                lambda frame: not is_library_frame(frame) and frame <> '…' and not contains(frame, '(autograd engine)')
            )[1],
            ''
        ),
        ''
    )
