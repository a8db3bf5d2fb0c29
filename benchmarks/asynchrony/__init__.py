"""What asynchronous training gains.

python -m benchmarks.asynchrony.simulated    # 8 to 512 GPUs, by the product's controller on a simulated clock
python -m benchmarks.asynchrony.real         # two cores, a tiny model, and the simulation compared with it
"""
