"""The OpenAPI 3.1 description of the HTTP contract, generated from the models that validate requests."""

from functions.openapi.document import openapi_document

__all__ = ["openapi_document"]
