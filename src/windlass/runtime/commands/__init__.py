"""Commands on their way in: sent or posted, checked, weighed; and the clients that answer calls by them."""
