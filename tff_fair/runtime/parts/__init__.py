"""Rounds in parts: clients are cut into parts of a fixed size.

A part is computed by one worker. Parts are merged in a fixed order, whichever
worker ends first. So a result depends on the size of the parts and on nothing
else: not on the engine, the number of workers, or the loss of one.
"""
