-- A row is no row: this is the macro has_optimizer(), whether an optimizer's kernels are in the inputs.

create macro has_optimizer() as exists (select 1 from _op_class where class = 'optimizer')
