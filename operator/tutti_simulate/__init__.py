"""`tutti simulate`: traces of work, played on the production engine in virtual time, and what came of it in figures."""
