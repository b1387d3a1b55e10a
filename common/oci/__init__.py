"""Images and their registries: how they are named, and how one is asked about them."""
