"""One module a command: reads its arguments, calls the program, prints, and returns the exit status."""
