-- A row is the name of one thread, from ThreadNames.

select thread_id, name from batch
