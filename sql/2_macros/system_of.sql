-- Macro system_of(of_source): the operating system that it was recorded on, as 'Windows 10.0.26200', NULL where nothing says.

create macro system_of(of_source) as (
    select any_value(value) from source_fact where source_id = of_source and section = 'about' and item = 'operating system'
)
