"""The formats by their names."""

from adapters.capabilities import TextFormat
from adapters.text_tools.bare import BARE
from adapters.text_tools.fenced import FENCED
from adapters.text_tools.function_tags import FUNCTION_TAGS
from adapters.text_tools.hermes import HERMES
from adapters.text_tools.llama import LLAMA
from adapters.text_tools.markup import TextCallFormat
from adapters.text_tools.mistral import MISTRAL

FORMATS: dict[TextFormat, TextCallFormat] = {
    "hermes": HERMES,
    "xml": FUNCTION_TAGS,
    "mistral": MISTRAL,
    "llama": LLAMA,
    "json": BARE,
    "fenced": FENCED,
}
