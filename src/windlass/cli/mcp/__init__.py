"""What `windlass mcp` does beyond looking and trusting: logins at servers, and agents served as one."""
