"""``zgul serve``: the HTTP service and its page."""

import os
from typing import Any

from zgul.cli import new_app
from zgul.cli.option_signature import with_options
from zgul.cli.products import faster_products
from zgul.errors import ZgulError
from zgul.serve.serve_config import ServeConfig

app = new_app()


@app.command("serve")
@with_options(ServeConfig)
def serve(given: dict[str, Any]) -> None:
    """Serve a page and an HTTP API that tag text, on this machine alone unless --host says otherwise."""
    if key := os.environ.get("ZGUL_API_KEY"):
        given.setdefault("api_key", key)
    config = ServeConfig.from_dict(given)
    try:
        from zgul.serve import server
    except ModuleNotFoundError as error:
        if str(error.name).startswith("zgul"):
            raise
        raise ZgulError(f"zgul serve needs more packages ({error.name}): pip install 'zgul[serve]'") from error
    faster_products()
    server.serve(config)
