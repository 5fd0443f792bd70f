"""`python -m answerkey.flows.cli`: the same as `answerkey`."""

import sys

from answerkey.flows.cli.main import main

sys.exit(main())
