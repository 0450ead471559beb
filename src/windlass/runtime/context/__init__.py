"""What a model sees beside the newest turns: archive, pages, recall tools, task state."""
