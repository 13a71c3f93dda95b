"""The command line of Dragoman with the invented dialect in the registry."""

import adapters
from tests.fourth_dialect.dialogue import DIALOGUE

if __name__ == "__main__":
    # A dialect of the product is one more name in the line that makes this table. It has to be
    # there before the gateway is imported.
    adapters.DIALECTS[DIALOGUE.name] = DIALOGUE
    from gateway.cli.commands import main

    main()
