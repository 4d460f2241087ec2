-- Whether an entry of a call chain is a function on a stack, with or without a symbol. Entries that nsys adds itself, as where a
-- stack is broken off, are in a module of their own name.

coalesce(stack_depth between 0 and 2147483647, false)
and symbol is distinct from module
and special_entry is distinct from 1
