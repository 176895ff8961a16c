"""`python -m numscope`."""

from numscope.cli import main

main()
