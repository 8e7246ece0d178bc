"""Pages: manifest, chunks, document, output directory, results and export; one module per kind of page."""
