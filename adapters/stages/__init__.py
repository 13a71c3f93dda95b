"""Stages that change a reply between its reader and its writer."""
