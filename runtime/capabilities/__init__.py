"""What a driver may be able to do besides the verbs that every driver has.

Asked by ``isinstance``, never by name. The contracts are those of ``runtime.protocol``.
"""
