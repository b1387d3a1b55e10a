"""A package as it is sent to be trained."""
