"""A job of many ranks in a folder: a result for each input, made by whatever runs it, and one database of all."""
