"""How the tools that write dumps name things: one module for each, one function `identify` in it.

A function gets a `Place` and says what is there, or `None` if the place is not one of its tool. The
order in which they are asked is in `numscope.dumps.layouts`. Nothing here opens a file.
"""
