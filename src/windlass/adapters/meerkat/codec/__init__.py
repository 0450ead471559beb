"""Meerkat's event model: values, and one strict way in and out of JSON. Knows nothing of our logs."""
