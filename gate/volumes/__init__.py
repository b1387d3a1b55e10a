"""Files of volumes: each request is allowed here and carried to the server beside the data."""
