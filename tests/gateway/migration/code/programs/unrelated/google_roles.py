"""Contents of another API, in which results of functions have a role of their own."""


def with_user_role(request):
    contents = request.get("contents") or []
    request["contents"] = [
        {**content, "role": "user"} if content.get("role") == "function" else content
        for content in contents
    ]
    return request


request = {"model": "models/one", "contents": [{"role": "function", "parts": [{"text": "42"}]}]}
print(with_user_role(request)["contents"][0]["role"])
