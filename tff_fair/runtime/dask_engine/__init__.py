"""Computes in Dask's workers; Dask schedules, repeats and moves their work.

The program submits each phase of a round as a graph of tasks: one for each
part, further ones that merge partial sums, and one that ends the phase. A task
runs in this package's local context, in its Dask worker. Partial sums stay in
the workers and move between them; only the phase's result goes to the program.
"""
