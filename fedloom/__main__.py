"""`python -m fedloom` is the command line."""

from fedloom.cli import main

main()
