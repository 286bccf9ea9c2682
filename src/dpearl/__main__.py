"""`python -m dpearl` is `dpearl`."""

from dpearl.cli import main

main()
