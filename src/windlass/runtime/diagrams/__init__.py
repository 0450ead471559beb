"""Diagrams of boxes and arrows, as SVG and as Mermaid text. Knows nothing of what is drawn."""
