"""Checks of saliency methods: how they are made (`methods`), their results (`report`), and the page (`analysis`)."""
