"""What is trained: models, adapters, data and the loop."""
