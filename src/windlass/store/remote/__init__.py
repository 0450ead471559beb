"""The store of a server, over HTTP: the five parts as questions that are asked and answered one by one."""
