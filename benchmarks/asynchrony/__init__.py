"""The gain of asynchronous training: measured on two cores, simulated on 8 to 512 GPUs, and published by AReaL."""
