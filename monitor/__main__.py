"""`python -m monitor` is `rubricd`."""

import sys

from monitor.cli import main

sys.exit(main())
