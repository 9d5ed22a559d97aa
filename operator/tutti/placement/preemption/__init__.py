"""Whom to take out so that pods fit: one pod by kube-scheduler's rules (`single`), a whole gang by ours (`gang`)."""
