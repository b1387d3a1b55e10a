"""Pure descriptions: what was asked → plain dictionaries that the API server takes."""
