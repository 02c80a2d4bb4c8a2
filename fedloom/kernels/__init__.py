"""Kernels: convolutions on a CPU, generated for their shape and called inside compiled programs.

``llvmlite`` generates the machine code; without it, or on a processor without AVX2, XLA's own convolutions are used.
"""
