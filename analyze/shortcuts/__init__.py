"""Views whose statements take long on millions of rows, by numpy: the same rows, sooner. The statements define them."""
