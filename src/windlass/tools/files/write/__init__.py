"""Tools that change files beneath one directory: write, edit, patch, make_directory, move, remove."""
