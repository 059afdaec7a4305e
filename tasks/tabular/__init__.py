"""Tables of a user's own: one row an example, one column the client.

`reading` reads the columns of a `table_file` (CSV) or a `parquet_file`,
`text_columns` says what texts mean, `population` gives rows to clients,
`labels` and `features` make y and x of them (`moments` has the federation's
means), and `building` makes the task. `layers` are the steps of `features` as
layers of a Keras model.
"""
