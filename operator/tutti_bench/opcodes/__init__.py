"""What each opcode does."""
