"""`python -m windlass.testing.server`: the model server as a command, under the name that is easy to guess.

It owns no server and no option of its own; `windlass.testing.model_server` does.
"""

from __future__ import annotations

from windlass.testing.model_server.__main__ import main

if __name__ == "__main__":
    main("python -m windlass.testing.server")
