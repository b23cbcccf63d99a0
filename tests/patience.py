"""How long a test waits for what must happen.

Far longer than it takes: a loaded machine says nothing about the code. A test that limits how
long something may take limits processor time instead, which does not depend on the load.
"""

PATIENCE_SECONDS = 300
