"""The page: what is written (docs/page-format.md), the document that shows it, and how its arrays are read back."""
