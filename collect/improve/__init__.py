"""Changes of a run's settings, tried one after another: what there is to change, what it measured, what is kept."""
