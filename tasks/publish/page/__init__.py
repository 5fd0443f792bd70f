"""The report as one HTML file, for the people who decide: `build_page`, then `render` or `write`.

`model` says what the page shows, `build` reads that from the warehouse, `charts` draws, `html` puts it together.
Text from the data set is data everywhere: escaped, isolated, and never a part of code.
"""
