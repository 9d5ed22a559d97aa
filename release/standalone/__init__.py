"""`kubectl-tutti` as one file for people who have Python and not pip, such as those who get it by krew.

What it needs is in it for several versions of Python, because parts of that are compiled; what is the same for all is
in it once.
"""
