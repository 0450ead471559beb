"""The seam for views."""
