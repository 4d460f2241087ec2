-- Macro severity_of(rule, saving_frac): how much a finding matters by its share of the steady state; where nobody knows
-- that, by what it is about.

create macro severity_of(rule, saving_frac) as
    case
        when saving_frac >= (select value from threshold where name = 'severe_frac') then 'high'
        when saving_frac >= (select value from threshold where name = 'notable_frac') then 'medium'
        when saving_frac is null and starts_with(rule, 'unrecorded') then 'high'
        when saving_frac is null and rule = 'dominant_kernel' then 'medium'
        else 'low'
    end
