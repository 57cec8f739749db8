"""The studio: a local web application to browse, play and compare runs.

`application.serve` serves it. Each part in `application.PARTS` adds its routes; one `Guard` protects all.
"""
