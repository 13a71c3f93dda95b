"""Migration of Python sources, which are parsed with libcst so that their formatting stays."""
