"""The terminal itself: keys in, text out, and hostile text made harmless on its way there."""
