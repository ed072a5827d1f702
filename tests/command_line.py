"""Run a command of zgul in this process."""

from typer.testing import CliRunner

from zgul.cli import app


def zgul(*arguments: object, env: dict[str, str] | None = None) -> str:
    """What a command prints. Its errors are raised as they are."""
    result = CliRunner().invoke(app, list(map(str, arguments)), env=env)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout
