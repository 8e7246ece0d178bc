"""A differentiable simulator of a frozen agent and its environment.

It runs on Keras with TensorFlow, as training does. A training step of the size `small` (4 windows of 8 steps, an agent
with IMPALA's body and a GRU in the loop, two cores) took 0.38 s there, 1.9 s with XLA, and 2.3 s on JAX.
"""
