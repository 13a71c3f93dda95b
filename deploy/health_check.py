"""The health check of the container: exits with code 0 if the gateway accepts requests."""

import os
import ssl
import sys
from http.client import HTTPConnection, HTTPException, HTTPSConnection

_TIMEOUT_SECONDS = 3
_DEFAULT_PORT = 8080
_OK = 200


def main() -> int:
    """Request `/ready` from the gateway in this container."""
    given = os.environ.get("DRAGOMAN_PORT", "")
    # Kubernetes may set the variable to a URL, which the gateway ignores, too.
    port = int(given) if given.isdigit() else _DEFAULT_PORT
    connection = HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_SECONDS)
    if "DRAGOMAN_TLS_CERT_FILE" in os.environ:
        # The certificate has the name by which clients know the gateway.
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = HTTPSConnection("127.0.0.1", port, timeout=_TIMEOUT_SECONDS, context=context)
    try:
        connection.request("GET", "/ready")
        return 0 if connection.getresponse().status == _OK else 1
    except (OSError, HTTPException):
        return 1


if __name__ == "__main__":
    sys.exit(main())
