"""What a release needs besides the code: a bill of materials."""
