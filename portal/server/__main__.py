import sys

from portal.server.main import main

sys.exit(main(sys.argv[1:]))
