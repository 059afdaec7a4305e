"""An engine of Dask workers: Dask schedules, repeats and moves what they do.

The program submits a round as one graph of tasks: a task for each part, tasks
that merge, one that ends the round. A task computes in the TFF runtime of its
Dask worker. Partial sums stay in the workers and move between them; the program
gets the last result.
"""
