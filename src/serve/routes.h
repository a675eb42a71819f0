// The routes of the server, as a table: an endpoint is a function and a row.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "base/json.h"
#include "serve/model_registry.h"
#include "serve/pending_reply.h"
#include "serve/request_fields.h"
#include "serve/served_model.h"

namespace vitrine {

/// A request as a route sees it.
struct RouteRequest {
  std::string_view body;
  std::string name;              ///< What follows the path of a route that ends with a slash.
  std::string id;                ///< Of the request.
  std::size_t client = 0;        ///< The number of the API key.
  std::function<void()> notify;  ///< For the work, which calls it on the scheduler's thread when it has news.
};

/// What is known without a model.
struct ServerStatus {
  bool is_loading = false, is_draining = false;
  const ModelRegistry* models = nullptr;  ///< Null before it is known which there are.
};

/// An interface, which has routes and a form of errors.
struct Door {
  std::string_view name{};  ///< For `--no-doors`; "": that of OpenAI and of vitrine itself, which is always open.
  Json (*error)(const RequestError& error) = [](const RequestError& e) { return e.to_json(); };
  std::string_view paths{};  ///< Errors at all paths that begin so have its form.
  int (*status)(const RequestError& error) = [](const RequestError& e) { return e.kind().status; };
};
inline constexpr Door kMainDoor{};
/// The names of those that may be closed.
std::vector<std::string> door_names();

/// Whose key a route needs: nobody's, that of a client if the server has keys, or that of an administrator, without
/// which there is no such route.
enum class Access : std::uint8_t { open, key, admin };

struct Route {
  using Report = HttpReply (*)(const ServerStatus& status);
  using Listing = Json (*)(ModelRegistry& models, const RouteRequest& request);
  using Answer = Json (*)(const ServedModel& model, const RouteRequest& request);
  using Work = std::shared_ptr<PendingReply> (*)(const ServedModel& model, const RouteRequest& request);

  static constexpr std::uint64_t kNoBody = 0, kServersLimit = ~std::uint64_t{0};

  std::string_view method, path;  ///< A path that ends with a slash has a name after it.
  std::uint64_t max_body;         ///< Bytes, of which the server may allow less.
  /// What answers the request: also before there are models; without the weights of any; with the model that the
  /// request asks for, at once; or after work of its scheduler. Functions run on the thread that prepares responses;
  /// they throw RequestError, and what becomes one.
  std::variant<Report, Listing, Answer, Work> handler;
  Access access = Access::key;
  const Door& door = kMainDoor;

  bool needs_model() const { return needs_scheduler() || std::holds_alternative<Answer>(handler); }
  bool needs_scheduler() const { return std::holds_alternative<Work>(handler); }
};

/// The door of a path, also where there is no route.
const Door& door_of(std::string_view path, std::string_view method = "");
/// The route of a path; null if there is none. Of several, that of the method, else the first.
const Route* find_route(std::string_view path, std::string_view method = "");

}  // namespace vitrine
