"""The command line: parse, call, render. Help and parsing load no models."""
