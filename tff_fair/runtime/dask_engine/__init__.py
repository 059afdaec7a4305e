"""An engine of Dask workers: Dask schedules, repeats and moves their work.

The program submits a round as one graph of tasks: one for each part, some that
merge, and one that ends the round. A task runs in this package's local context,
in its Dask worker. Partial sums stay in the workers and move between them; only
the final result goes to the program.
"""
