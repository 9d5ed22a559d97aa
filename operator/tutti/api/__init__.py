"""What users write: the kinds, typed views of core objects, quantities, gang conventions, configuration."""
