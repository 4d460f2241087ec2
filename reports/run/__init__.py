"""How a run of `lorabench collect` went and what it measured, in lines."""
