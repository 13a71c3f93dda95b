"""The formats by which API keys, tokens and other credentials are recognized in any text."""

import re
from typing import Final

# Each alternative begins with fixed characters or a look behind, and has a limit where it could
# scan far, so that a search takes linear time.
KEY_FORMATS: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    # Keys of vendors.
    r"(?:sk|dk|pk|rk|xox[a-z])-[A-Za-z0-9_-]{8,}"
    r"|(?:gsk|hf|ghp|gho|ghs|ghu|github_pat|glpat)[_-][A-Za-z0-9_-]{8,}"
    r"|AKIA[A-Z0-9]{12,}"
    r"|AIza[A-Za-z0-9_-]{20,}"
    # JSON Web Tokens.
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
    r")"
    # Tokens in headers. `Basic` is also an ordinary word, but is not followed by digits then.
    r"|(?<=\bBearer )[A-Za-z0-9._~+/=-]{8,}"
    r"|(?<=\bBasic )(?=[A-Za-z+/]{0,200}[0-9=])[A-Za-z0-9+/=]{8,}"
    # Private keys, also truncated ones.
    r"|-----BEGIN (?:[A-Z]{1,20} ){0,3}PRIVATE KEY-----(?:(?!-----)[^\"]){0,20000}"
    r"(?:-----END (?:[A-Z]{1,20} ){0,3}PRIVATE KEY-----)?"
    # User names and passwords in URLs, but not a marker in their place.
    r"|(?<=://)[^\s/?#@:\"'\\<>\[]{0,128}:[^\s/?#@\"'\\<>]{1,256}(?=@)"
)
