"""The gain of asynchronous training.

python -m benchmarks.asynchrony.simulated    # 8 to 512 GPUs, simulated with the controller's own rules
python -m benchmarks.asynchrony.real         # two cores, a tiny model, and the simulation compared with it
"""
