-- A row is one entry of StringIds, the dictionary that all tables of an export point into.
--
-- needs: batch

select id, value from batch
