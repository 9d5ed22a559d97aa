"""What a request does to the store: reads, writes, deletions, subresources and admission."""
