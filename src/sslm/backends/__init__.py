"""Ways to run a program: ``reference`` is the definition, ``native`` is quick, both give the same bits."""
