"""What experiments there are: each module here has a tuple `EXPERIMENTS` and imports nothing heavy.

The functions that they name live beside this folder. A new experiment is a new module here, or one
more entry of a tuple: no other file changes.
"""
