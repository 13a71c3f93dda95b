"""Everything of Dragoman that waits or touches the machine: so far, the command line."""
