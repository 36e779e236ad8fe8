"""How the package is built: the hooks of its build backend, and the check of its wheels."""
