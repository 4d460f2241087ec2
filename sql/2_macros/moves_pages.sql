-- Macro moves_pages(op): whether work of that name is pages of managed memory that move on demand, which no call launches.

create macro moves_pages(op) as contains(op, 'Unified Memory')
