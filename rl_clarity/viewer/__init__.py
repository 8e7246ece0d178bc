"""The viewer of recordings in log directories: in TensorBoard, by `rl-clarity serve`, or as a static page."""
