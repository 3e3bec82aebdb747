"""`python -m kern_tools` is the command `kern-tools`."""

from .cli import main

main()
