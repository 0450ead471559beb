"""JSON-RPC 2.0 between two that both ask: the conversation, and the two ways in which messages stand on a stream."""
