"""Views as tables: which inputs, rows and columns, their units, and files of them."""
