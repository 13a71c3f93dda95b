"""A transform of this project."""

from msgspec.structs import replace

from adapters import Request, Transform, TransformLosses


class LimitOutput(Transform, frozen=True):
    """Limits the length of replies."""

    tokens: int = 1000

    def request(self, request: Request, losses: TransformLosses) -> Request:
        losses.changed("max_output_tokens", f"limited to {self.tokens}", "capability")
        return replace(request, max_output_tokens=self.tokens)
