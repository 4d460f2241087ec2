-- Macro kind_has_device_waits(kind): whether waits are recorded as the device saw them: begin and end on a stream, and
-- which record of an event is waited for.

create macro kind_has_device_waits(kind) as kind = 'kineto'
