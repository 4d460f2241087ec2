-- A row says whether ranges of the input that is being read are ends of steps.
--
-- needs: _optimizer_step, reading

select exists (from _optimizer_step semi join reading using (source_id))
