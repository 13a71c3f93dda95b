"""Where ids and the time come from in service."""

import secrets
import time

from adapters import Mint

RANDOM = Mint(secrets.token_hex, time.time)
