"""What a run is: its settings, their options and the shapes of published models."""
