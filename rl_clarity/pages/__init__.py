"""Pages: manifest, chunks, document, output directory, results, export, and kinds of pages."""
