"""Whom to take out so that pods fit: one pod, or a whole gang at once (`victims`)."""
