"""What work and its devices do over time: samples, roll-ups, and what can be read from them."""
