"""Pages of recurrent agents: what their states hold, how far back they remember, and which earlier step caused what."""
