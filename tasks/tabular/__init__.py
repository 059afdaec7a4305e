"""Tables of a user's own: one row an example, one column the client.

`reading` reads the columns of a CSV or Parquet file, `population` gives its
rows to clients, `labels` and `features` make y and x of them (`moments` has the
federation's means), `building` makes the task, and `preprocessing` puts the
same steps around a Keras model, as `layers`.
"""
