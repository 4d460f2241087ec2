"""What changes would save: a finished database in, replayed steps and predictions out."""
