"""A differentiable simulator of a frozen agent and its environment.

It runs on Keras with TensorFlow, as training does. A training step with the size `small` (4 windows of 8 steps, an
agent with an IMPALA network and a GRU in the loop, two cores) took 0.38 s with TensorFlow, 1.9 s with XLA, and 2.3 s
with JAX.
"""
