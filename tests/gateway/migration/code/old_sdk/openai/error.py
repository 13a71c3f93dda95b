"""The errors of version 0.28."""


class OpenAIError(Exception):
    def __init__(self, message: str = "", http_status: int | None = None) -> None:
        super().__init__(message)
        self.user_message = message
        self.http_status = http_status


class APIError(OpenAIError):
    pass


class TryAgain(OpenAIError):  # noqa: N818 - its name in version 0.28
    pass


class Timeout(OpenAIError):  # noqa: N818 - its name in version 0.28
    pass


class APIConnectionError(OpenAIError):
    pass


class InvalidRequestError(OpenAIError):
    pass


class AuthenticationError(OpenAIError):
    pass


class PermissionError(OpenAIError):  # noqa: A001 - its name in version 0.28
    pass


class RateLimitError(OpenAIError):
    pass


class ServiceUnavailableError(OpenAIError):
    pass


BY_STATUS: dict[int, type[OpenAIError]] = {
    400: InvalidRequestError,
    401: AuthenticationError,
    403: PermissionError,
    404: InvalidRequestError,
    429: RateLimitError,
    503: ServiceUnavailableError,
}
