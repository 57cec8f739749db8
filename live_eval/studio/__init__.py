"""Run the studio, a local web application to browse, play and compare runs.

`application.serve` runs the server. Each part in `application.PARTS` adds routes; a `Guard` protects them.
"""
