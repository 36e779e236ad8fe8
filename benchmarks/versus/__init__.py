"""Engines measured side by side: the parts of ``benchmarks/versus_llama_cpp.py``."""
