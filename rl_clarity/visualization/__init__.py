"""What attribution and features look like: colours, pictures, dataset examples, optimised images; pure NumPy."""
