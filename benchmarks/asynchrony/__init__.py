"""The gain of asynchronous training: simulated on 8 to 512 GPUs, real on two cores, and against AReaL."""
