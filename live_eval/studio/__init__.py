"""The studio: a local web application for browsing, playing and comparing runs.

`application.serve` runs the server. Each part in `application.PARTS` adds routes; one `Guard` protects all.
"""
