"""What runs where a model is served: in an environment or image of its own, without the portal.

A model's file may be a program (a pickle is). It is opened here only, as the project's own work.
"""
