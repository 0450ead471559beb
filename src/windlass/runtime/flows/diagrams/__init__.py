"""Diagrams of workflows, drawn from the graph alone: Mermaid text, and SVG."""
