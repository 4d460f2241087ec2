-- Macro has_torch(of_source): whether something in an input shows that torch ran in it.

create macro has_torch(of_source) as of_source in (select source_id from _torch_source)
