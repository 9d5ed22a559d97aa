"""`tutti migrate`: manifests of other schedulers, rewritten for this one."""
