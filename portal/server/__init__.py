"""Running Berth on one machine: the process manager and the verbs of its administrator.

What watches other processes here uses the standard library only (no Django, no settings): it
stays small, and it keeps working when the portal itself can't be imported.
"""
