"""The four wire formats from the provider's side: requests read, answers written."""
