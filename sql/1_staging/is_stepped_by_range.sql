-- A row says whether ranges of the input that is being read are steps.
--
-- needs: _step_range, reading

select exists (from _step_range semi join reading using (source_id))
