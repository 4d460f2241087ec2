-- Macro file_name(path): the last part of a path, of Linux or Windows.

create macro file_name(path) as regexp_extract(path, '[^/\\]*$')
