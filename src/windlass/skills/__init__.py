"""Skills: folders of instructions that a model loads when it needs them; found, checked, and known by digest."""
