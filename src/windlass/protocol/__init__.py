"""Sessions as the outside sees them: the seam between what is recorded and the forms in which others take it."""
