"""Ways to run a program: ``reference`` defines the bits, ``native`` gives the same ones quickly."""
