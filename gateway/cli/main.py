"""The command `dragoman`."""

import rich_click as click
from click import version_option

from gateway.cli.check import check
from gateway.cli.key import key
from gateway.cli.serve import serve
from gateway.cli.translate import translate

_HELP = """Translates between tool-calling dialects: Chat Completions (chat), the Responses API
(responses) and legacy functions (legacy); on the network with serve, file by file with translate.

\b
Examples:
  dragoman serve --backend http://127.0.0.1:8000/v1 --dialect chat
  dragoman translate --from chat --to responses request.json
  dragoman check --dialect chat stream.sse
"""


@click.group(help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@version_option(package_name="dragoman")
def main() -> None:
    """Hold the commands together."""


main.add_command(serve)
main.add_command(key)
main.add_command(translate)
main.add_command(check)

if __name__ == "__main__":
    main()
