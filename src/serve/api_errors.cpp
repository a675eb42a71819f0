#include "serve/api_errors.h"

namespace vitrine {
namespace {

bool is_kind(const RequestError& error, const ErrorKind& kind) {
  return error.kind().status == kind.status && std::string_view(error.kind().code) == kind.code;
}

/// The tokenizer refuses a text.
bool is_of_tokenizer(const RequestError& error) { return std::string_view(error.what()).starts_with("[tokenizer] "); }

}  // namespace

int tei_status(const RequestError& error) {
  if (is_kind(error, kTooLong) || is_kind(error, kTooMany)) return 413;
  if (is_kind(error, kEmpty) || is_kind(error, kLacksAbility)) return 400;
  const int status = error.kind().status;
  if (status == 400 && (error.kind().names_field || is_of_tokenizer(error))) return 422;
  return status == 500 ? 424 : status;
}

Json tei_error(const RequestError& error) {
  const int status = tei_status(error);
  const char* const type = status == 424            ? "Backend"
                           : status == 429          ? "Overloaded"
                           : status == 503          ? "Unhealthy"
                           : is_of_tokenizer(error) ? "Tokenizer"
                           : is_kind(error, kEmpty) ? "Empty"
                                                    : "Validation";
  return {{"error", error.what()}, {"error_type", type}};
}

Json cohere_error(const RequestError& error) { return {{"message", error.what()}}; }

int jina_status(const RequestError& error) {
  const int status = error.kind().status;
  return status == 400 && !is_kind(error, kLacksAbility) ? 422 : status;
}

Json jina_error(const RequestError& error) { return {{"detail", error.what()}}; }

}  // namespace vitrine
