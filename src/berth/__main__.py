"""`python -m berth`: the same as the command `berth`."""

from berth.cli import main

if __name__ == "__main__":
    main(prog_name="berth")
