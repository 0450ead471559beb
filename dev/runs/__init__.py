"""Real runs, recorded: each drives the real runtime over real SQLite files; `tests/runs/` keeps their logs."""
