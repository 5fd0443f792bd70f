"""`python -m flows.cli`: the same as `answerkey`."""

import sys

from flows.cli.parser import main

sys.exit(main())
