"""The models of all backends."""

from typing import Annotated

from litestar import Controller, Response, get
from litestar.di import NamedDependency
from litestar.params import PathParameter, SkipValidation

from gateway.api.common import Authenticated, json_response
from gateway.backends.models import Model, ModelList, Models
from gateway.openapi.document import responses

AllModels = NamedDependency[SkipValidation[ModelList]]
ModelName = Annotated[
    str, PathParameter(description="The name of the model, which may contain slashes.")
]


class ModelController(Controller):
    """The endpoints of models."""

    path = "/models"
    tags = ("Models",)

    @get(
        operation_id="listModels",
        summary="List the models of all backends",
        responses=responses(Models, "The models, for OpenAI clients and for Codex.", (401,)),
    )
    async def list_models(self, models: AllModels, principal: Authenticated) -> Response[bytes]:
        """Return the models of all backends, in the forms of OpenAI and of Codex."""
        return json_response(await models.get(principal.authorization))

    @get(
        "/{name:path}",
        operation_id="getModel",
        summary="Describe a model",
        responses=responses(Model, "The model.", (400, 401, 404)),
    )
    async def retrieve(
        self, models: AllModels, principal: Authenticated, name: ModelName
    ) -> Response[bytes]:
        """Return one model."""
        return json_response(await models.find(principal.authorization, name.removeprefix("/")))
