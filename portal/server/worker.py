"""The process ``worker``: engine, watch, routes, health, clock and Celery, in one.

Everything is a thread that sleeps until there is something to do. Celery has the main thread
(it handles the signals); when it ends, the engine is drained: what runs ends, the rest is left
to the next worker, which finds it in the database.
"""

import os
import sys

from common.memory import loading


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
    with loading():
        import django

        django.setup()
        from portal.server.duties import Worker

    return Worker().run()


if __name__ == "__main__":
    sys.exit(main())
