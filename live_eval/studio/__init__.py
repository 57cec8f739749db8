"""The studio: a local web application to browse, play and compare runs.

`application.serve` runs the server. Each part in `application.PARTS` adds routes; one `Guard` protects all.
"""
