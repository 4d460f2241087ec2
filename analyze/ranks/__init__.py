"""What the inputs of several ranks say together: which collectives are one, and how far clocks are apart."""
