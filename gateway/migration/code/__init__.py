"""Migration of source code from legacy functions to tools."""
