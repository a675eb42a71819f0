// Errors as the interfaces of rerankers and embeddings have them. Sources: text-embeddings-inference,
// docs/openapi.json; docs.cohere.com (v1 and v2); api.jina.ai/openapi.json.
#pragma once

#include "serve/request_fields.h"

namespace vitrine {

/// text-embeddings-inference: `{"error", "error_type"}`; a field of the wrong type is 422, a text or a list that is too
/// long 413, an empty list 400, a failed forward 424.
Json tei_error(const RequestError& error);
int tei_status(const RequestError& error);

/// Cohere: `{"message"}`.
Json cohere_error(const RequestError& error);

/// Jina: `{"detail"}`; what is wrong with a body is 422.
Json jina_error(const RequestError& error);
int jina_status(const RequestError& error);

}  // namespace vitrine
