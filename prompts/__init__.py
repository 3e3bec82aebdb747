"""The words a model reads, as templates."""
