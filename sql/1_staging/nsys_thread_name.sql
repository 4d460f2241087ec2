-- A row is the name of one thread, from ThreadNames.
--
-- needs: batch

select thread_id, name from batch
