"""What requests ask of the memory, and what is kept of their answers."""
