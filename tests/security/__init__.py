"""Each row of the security checklist as tests that can fail; docs/security.md says which row is where."""
