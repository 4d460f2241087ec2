-- Macro work_kind(text): a kind of GPU work in the type of gpu_op.kind.
--
-- Rows that arrays make have it as text, and millions of operations would be compared with it as texts.

create macro work_kind(text) as text::enum('kernel', 'memcpy', 'memset', 'graph')
