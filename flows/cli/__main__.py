"""`python -m answerkey.flows.cli`: the same as `answerkey`."""

import sys

from answerkey.flows.cli.parser import main

sys.exit(main())
