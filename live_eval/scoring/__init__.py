"""Score recorded runs with judges."""
