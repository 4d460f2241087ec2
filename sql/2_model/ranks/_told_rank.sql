-- A row is an nsys export of one process in which NCCL says which rank of how many it is, in its largest communicator.
--
-- Communicators of some ranks alone, as those that share out a layer, say so too: then two inputs have the same row but for the note.
--
-- columns:
--   source_id   integer   the input
--   value       varchar   rank and size, as 'rank 2 of 4'
--   note        varchar   the communicator

select source_id, value, note
from source_fact
where section = 'about' and item = 'rank in NCCL''s largest communicator'
