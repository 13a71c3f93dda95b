"""What can be done from the command line, one module a command, and what the commands share."""
