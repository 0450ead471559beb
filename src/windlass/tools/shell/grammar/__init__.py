"""The two readers of shell texts: the grammar of bash, and one that shares no line with it."""
