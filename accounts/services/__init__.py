"""Everything that changes an account. Views, API and commands only translate to these."""
