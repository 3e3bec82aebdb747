"""Data files of the demo and the cookbooks; README.md names their sources."""
