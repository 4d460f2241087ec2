-- A row maps an id of StringIds to the name of its text, and to that name without the version of the API (_v3020).
--
-- needs: staged_name, string

select
    string.id as string_id,
    plain.name_id,
    api.name_id as api_name_id
from string
join staged_name as plain on plain.text = string.value
join staged_name as api on api.text = api_name(string.value)
