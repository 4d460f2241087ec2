-- Macro is_fusible(of_class, kernel): whether one kernel could do what a kernel of a class and those beside it do: it
-- reads its tensors once and writes them, computing little.
--
-- Elementwise work, casts, concatenations, reductions and norms, as a compiler or a fused implementation takes them together.
-- What takes its elements from anywhere (gathers, embeddings) does not, nor what a compiler has fused (Triton, XLA), nor what a
-- library launches within a convolution of its own (cuDNN, MIOpen).

create macro is_fusible(of_class, kernel) as
    (
        of_class in ('elementwise', 'reduction', 'norm')
        or (of_class = 'data_movement' and regexp_matches(kernel, '(?i)copy|cat_?array|concat'))
    )
    and not regexp_matches(kernel, '^triton|_fusion(_\d+)?$|(?i:scalepackedtensor|subtensorop)');
