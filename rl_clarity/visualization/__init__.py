"""Render attribution and features as images: colors, rendering, dataset examples, optimized images. Pure NumPy."""
