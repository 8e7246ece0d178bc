"""Images of attribution and features: colors, rendering, dataset examples, optimized images. Pure NumPy."""
