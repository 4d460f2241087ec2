"""The DuckDB file: how it is built, opened, kept and checked, and the views in it."""
