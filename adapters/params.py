"""Names, for one dialect's client, the parameter that another dialect's backend complains of."""

import re

from adapters.dialect import Dialect

_ROOT = re.compile(r"[^.\[]+")


def translate_param(param: str | None, backend: Dialect, client: Dialect) -> str | None:
    """Translate the path of a parameter, as far as the two dialects have it in common.

    Where messages became items, or the reverse, the place within them is another: then only the
    list is named.
    """
    if not param or backend is client:
        return param
    hub_names = {spelled: name for name, spelled in backend.names.items()}
    if param in hub_names:
        name = hub_names[param]
        return client.names.get(name, name)
    match = _ROOT.match(param)
    root = match.group() if match else param
    name = hub_names.get(root, root)
    spelled = client.names.get(name, name)
    if spelled != root:
        return spelled
    return re.sub(r"\.(function|custom)(?=[.\[]|$)", "", param)
