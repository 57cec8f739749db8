"""The studio: a local web application for browsing, playing and comparing runs.

`application.serve` serves it. Each part in `application.PARTS` adds its routes; one `Guard` protects all.
"""
