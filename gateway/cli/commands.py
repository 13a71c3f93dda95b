"""The command group `dragoman`."""

import rich_click as click
from click import version_option

from adapters import __version__
from gateway.cli.check import check_command
from gateway.cli.config import config_command
from gateway.cli.diff import diff_command
from gateway.cli.import_recordings import import_command
from gateway.cli.key import key_command
from gateway.cli.migrate import migrate_command
from gateway.cli.reload import reload_command
from gateway.cli.replay import replay_command
from gateway.cli.serve import serve_command
from gateway.cli.translate import translate_command

_HELP = """Translate between tool-calling dialects.

The dialects are Chat Completions (chat), the Responses API (responses) and legacy functions
(legacy). `serve` runs a gateway, `translate` translates files, `replay` serves recordings.

\b
Examples:
  dragoman serve --backend http://127.0.0.1:8000/v1 --dialect chat
  dragoman translate --from chat --to responses request.json
  dragoman check --dialect chat stream.sse
"""


@click.group(help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@version_option(__version__)
def main() -> None:
    """Group the commands."""


for _command in (
    serve_command,
    reload_command,
    config_command,
    key_command,
    translate_command,
    check_command,
    diff_command,
    replay_command,
    import_command,
    migrate_command,
):
    main.add_command(_command)
