"""One exchange with a session, for protocols of request and answer: commands in, what follows from them as steps."""
