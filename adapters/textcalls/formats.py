"""The formats by their names."""

from adapters.capabilities import TextFormat
from adapters.textcalls.bare import BARE
from adapters.textcalls.fenced import FENCED
from adapters.textcalls.function_tags import FUNCTION_TAGS
from adapters.textcalls.hermes import HERMES
from adapters.textcalls.llama import LLAMA
from adapters.textcalls.markup import TextCallFormat
from adapters.textcalls.mistral import MISTRAL

FORMATS: dict[TextFormat, TextCallFormat] = {
    "hermes": HERMES,
    "xml": FUNCTION_TAGS,
    "mistral": MISTRAL,
    "llama": LLAMA,
    "json": BARE,
    "fenced": FENCED,
}
