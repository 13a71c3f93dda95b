"""`dragoman serve`: runs the gateway."""

import rich_click as click

from gateway.cli.config_options import config_options, load_or_exit, read_source
from gateway.terminal import exit_on_error

_HELP = """Run the gateway, with backends from a configuration file or from options.

The file is that of --config, or else dragoman.toml in the working directory. Without any backend, a
built-in demo backend serves every model; it needs no key. Options override the file. --backend
replaces all backends of the file.

Exit codes: 0 after a signal to stop, 1 if the address cannot be used, 2 for an invalid option, 3 if
the gateway cannot start for another reason, 78 for an invalid configuration.

\b
Examples:
  dragoman serve
  dragoman serve --backend http://127.0.0.1:8000/v1 --dialect chat --profile vllm
  dragoman serve --config dragoman.toml --port 9000 --workers 4
  dragoman serve --backend http://127.0.0.1:8000/v1 --dialect chat --record recordings
"""


@click.command(help=_HELP)
@config_options
def serve_command(**given: object) -> None:
    """Serve until a signal to stop."""
    source = read_source(given)
    config = load_or_exit(source)
    with exit_on_error():
        # Imported here because it takes half a second, which other commands do not need.
        from gateway.server.run import run_server  # noqa: PLC0415

        code = run_server(config, source)
    raise SystemExit(code)
