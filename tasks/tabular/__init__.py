"""Users' own tables: each row is an example, one column is the client.

`reading` reads the columns of a `table_file` (CSV) or a `parquet_file`,
`text_columns` interprets texts, `population` assigns rows to clients, `labels`
and `features` turn rows into y and x (with the federation's `moments`), and
`row_task` builds the task. `layers` has the steps of `features` as layers of a
Keras model.
"""
