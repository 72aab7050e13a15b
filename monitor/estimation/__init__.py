"""Pass rates and their bounds as functions of numbers. Nothing here reads a clock, a file or a store."""
