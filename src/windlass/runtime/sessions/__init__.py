"""What can be done with a session as a whole: found or created, looked at, waited for, forked, shut down."""
