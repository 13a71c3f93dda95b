"""The statuses of HTTP that answers are told apart by."""

from typing import Final

# All is well; of a stream, so far.
WHOLE: Final = 200
# How backends say so: some frameworks answer every POST with 201 unless they are told otherwise.
ANSWERED: Final = frozenset((WHOLE, 201, 202, 203))
BAD_REQUEST: Final = 400
# From the one on something is wrong; behind the other, nothing means anything.
ERROR: Final = 400
LAST: Final = 599
# What proxies write into their logs when a client left before it was answered.
CLIENT_GONE: Final = 499
