"""What users' own code is asked: plugins, permits, HTTP extenders."""
