"""Rows of the views to what people read: files, tables on a terminal."""
