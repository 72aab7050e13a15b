"""The nouns: what the parts of the program hand to each other. Frozen values, no behaviour that does I/O."""
