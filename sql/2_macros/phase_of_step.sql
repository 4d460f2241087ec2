-- Macro phase_of_step(phase): the phase of a step that a phase of phase_of(text) is a part of.
--
-- A recomputation is part of the backward, zero_grad of the optimizer.

create macro phase_of_step(phase) as
    case phase when 'recompute' then 'backward' when 'zero_grad' then 'optimizer' else phase end
