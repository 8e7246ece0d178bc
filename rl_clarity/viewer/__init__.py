"""Recordings of log directories, shown while they are written: in TensorBoard, by `rl-clarity serve`, or as a page."""
