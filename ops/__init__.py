"""The operator's command line: `./account-deletion`. It reads, and asks the functions to act; it writes nothing."""
