-- Macro kind_is_of_torch(kind): whether what records such files records nothing but torch.

create macro kind_is_of_torch(kind) as kind <> 'nsys'
