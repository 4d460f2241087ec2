-- Macro has_optimizer(of_source): whether an optimizer's kernels run in what an input's answer is about.

create macro has_optimizer(of_source) as of_source in (select source_id from _steady_class where class = 'optimizer')
