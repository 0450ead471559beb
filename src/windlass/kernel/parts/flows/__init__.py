"""Workflows: the nodes of a graph on their way to their ends, and what comes next among them."""
