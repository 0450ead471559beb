"""Logins at servers that ask for one (OAuth): found out about, agreed to by a person, kept, renewed and ended."""
