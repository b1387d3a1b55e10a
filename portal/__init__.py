"""The composition root. Imports nothing: the process manager below it must stay small."""
