"""The HTTP service and its page: ``zgul serve``. Needs the extra ``serve``; docs/serve.md is the guide."""
