"""What every store judges by: ids, limits, a session's ledger, when a lease has run out, what a query asks for."""
