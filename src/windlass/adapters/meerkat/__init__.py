"""Sessions in the event vocabulary of Meerkat: a codec of its model, and a view of our logs in it."""
