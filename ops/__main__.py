"""Runs the command line: `account-deletion --help`, or `python -m ops --help`."""

from ops.cli import app

if __name__ == "__main__":
    # Shells complete by a command's name: the one of the launcher.
    app(prog_name="account-deletion")
