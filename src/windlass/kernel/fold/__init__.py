"""How each event changes the state, by family. Decides nothing, reads no content, and needs no policy code."""
