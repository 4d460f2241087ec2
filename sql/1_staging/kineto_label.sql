-- A row is a name that a metadata event gives to a process or thread.
--
-- needs: batch

select name as what, pid, tid, label
from batch
where phase = 'M' and label is not null
