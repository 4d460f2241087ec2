-- Macro kind_knows_peers(kind): whether the peers of a message are ranks of the job: nsys has numbers within the
-- communicator.

create macro kind_knows_peers(kind) as kind <> 'nsys'
