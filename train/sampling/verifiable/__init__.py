"""Answers that others can check.

Commitments to hidden states: the algorithm of TOPLOC (arXiv 2501.16007), written anew.

A worker commits to the hidden states that enter the output layer, one row for each token that it drew. A verifier
computes the same rows by a prefill of the finished answer and compares. Both agree nearly, not exactly, because engines
add in different orders; so a commitment keeps the largest values, and the comparison counts how many of them are off.

noise.py                counted noise: draws that anybody can repeat
seeded_sampling.py      tokens drawn with it, and what an engine notes of each (torch)
finite_field.py         arithmetic with polynomials over the prime field of the commitments
top_k.py                the largest values of a chunk of hidden states
commitment.py           Commitment: made from hidden states, written as bytes, read from bytes that nobody trusts
commitment_distance.py  how far hidden states are from a commitment
"""
