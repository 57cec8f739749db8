"""The studio: a web application on this machine to look at runs, listen to them and compare them.

`serve` serves it. Each module named in `parts.PARTS` adds its own routes; all stand behind one `Guard`.
"""
