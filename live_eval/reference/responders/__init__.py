"""Speech recognition and replies of the reference endpoint."""
