// What the header of a request decides: route, key, Host, Origin, framing, type and length of the body.
#include "serve/request_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/request_fields.h"
#include "serve/routes.h"

namespace vitrine::test {
namespace {

RequestHead get(const std::string& path) {
  RequestHead head;
  head.method = "GET";
  head.path = path;
  head.host = "localhost:8080";
  head.n_fields = 3;
  return head;
}

RequestHead post(const std::string& path, std::uint64_t length = 10) {
  RequestHead head = get(path);
  head.method = "POST";
  head.content_type = "application/json";
  head.content_length = length;
  return head;
}

AccessRules local() {
  AccessRules rules;
  rules.hosts = {"127.0.0.1", "localhost", "[::1]"};
  return rules;
}

int status_of(const RequestHead& head, const AccessRules& rules = local()) {
  try {
    admit(head, rules);
    return 200;
  } catch (const RequestError& e) {
    return e.kind().status;
  }
}

TEST(RequestHead, ThatChangesWhatIsServedNeedsAnAdministratorsKey) {
  for (const char* path : {"/v1/load_lora_adapter", "/v1/unload_lora_adapter"}) {
    RequestHead head = post(path);
    AccessRules rules = local();
    rules.keys = {"client"};
    head.authorization = "Bearer client";
    EXPECT_EQ(status_of(head, rules), 404) << "without administrators there is no such route";
    rules.admin_keys = {"boss", "deputy"};
    EXPECT_EQ(status_of(head, rules), 403);
    head.authorization = "Bearer deputy";
    EXPECT_EQ(status_of(head, rules), 200);
    head.authorization = "";
    EXPECT_EQ(status_of(head, rules), 401);
    head.api_key = "boss";
    EXPECT_EQ(status_of(head, rules), 200);
    head.origin = "http://page.example";
    EXPECT_EQ(status_of(head, rules), 403) << "not from a page";
  }
  AccessRules rules = local();
  rules.keys = {"client"};
  rules.admin_keys = {"boss"};
  RequestHead head = post("/v1/completions");
  head.authorization = "Bearer boss";
  EXPECT_EQ(status_of(head, rules), 401) << "it is no client's key";
}

TEST(RequestHead, Routes) {
  EXPECT_EQ(admit(get("/health"), local()).route->path, "/health");
  EXPECT_EQ(admit(get("/v1/models"), local()).route->path, "/v1/models");
  const AdmittedHead model = admit(get("/v1/models/a/b"), local());
  EXPECT_EQ(model.route->path, "/v1/models/");
  EXPECT_EQ(model.name, "a/b");
  EXPECT_EQ(admit(post("/v1/completions"), local()).route->path, "/v1/completions");
  EXPECT_EQ(admit(post("/v1/chat/completions"), local()).route->path, "/v1/chat/completions");
  EXPECT_EQ(admit(post("/v1/trace"), local()).route->path, "/v1/trace");
  for (const char* path : {"", "/v1", "/v1/completions/", "/v1/models/", "/health/x", "http://localhost/health", "*"}) {
    EXPECT_EQ(status_of(get(path)), 404) << path;
  }
  EXPECT_EQ(status_of(get("/v1/completions")), 405);
  EXPECT_EQ(status_of(post("/health")), 405);
  EXPECT_EQ(methods_of("/v1/completions"), "POST, OPTIONS");
  EXPECT_EQ(methods_of("/v1/models"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(methods_of("/"), "GET, HEAD, POST, OPTIONS") << "Ollama's and text-embeddings-inference's";
  EXPECT_EQ(methods_of("/nothing"), "");
  RequestHead server = get("*");
  server.method = "OPTIONS";
  EXPECT_EQ(status_of(server), 200) << "RFC 9110, 9.3.7: the server as a whole";
  EXPECT_EQ(methods_of("*"), "GET, HEAD, POST, DELETE, OPTIONS");
  server.path = "/nothing";
  EXPECT_EQ(status_of(server), 404);
}

TEST(RequestHead, ClosedDoorsHaveNoRoutes) {
  const std::pair<const char*, const char*> doors[] = {{"messages", "/v1/messages"}, {"responses", "/v1/responses"},
                                                       {"ollama", "/api/chat"},      {"tei", "/embed"},
                                                       {"cohere", "/v2/rerank"},     {"jina", "/v1/rerank"}};
  for (const auto& [closed, own] : doors) {
    AccessRules rules = local();
    rules.closed = {closed};
    for (const auto& [name, path] : doors) {
      EXPECT_EQ(status_of(post(path), rules), path == own ? 404 : 200) << path << " without " << closed;
    }
    EXPECT_EQ(status_of(post("/v1/chat/completions"), rules), 200);
  }
  EXPECT_EQ(door_names(), (std::vector<std::string>{"messages", "responses", "ollama", "tei", "cohere", "jina"}));
}

TEST(RequestHead, TargetsArePathsOrUrls) {
  const auto path = [](std::string_view target) { return parse_target(target).path; };
  EXPECT_EQ(path("/v1/models/org%2Fsmall-1?x=%41"), "/v1/models/org/small-1");
  EXPECT_EQ(path("/v1/models/caf%c3%A9%20b"), "/v1/models/caf\xC3\xA9 b");
  EXPECT_EQ(path("/%76%31/models"), "/v1/models");
  EXPECT_EQ(path("/a+b"), "/a+b") << "a plus is a space in forms only";
  for (const char* text : {"/%", "/%4", "/%zz", "/%+1", "/100%", "*", ""}) EXPECT_EQ(path(text), text);
  EXPECT_EQ(path("/%2541"), "/%41") << "decoded once";
  EXPECT_FALSE(parse_target("/x://y").host);
  const RequestTarget whole = parse_target("http://127.0.0.1:8091/v1/models?a");
  EXPECT_EQ(whole.path, "/v1/models");
  EXPECT_EQ(whole.host, "127.0.0.1:8091");
  EXPECT_EQ(path("HTTPS://localhost"), "/");
  EXPECT_EQ(path("http://localhost?x"), "/");
}

TEST(RequestHead, HeadIsWhereGetIs) {
  RequestHead head = get("/v1/models");
  head.method = "HEAD";
  EXPECT_EQ(status_of(head), 200);
  head.path = "/v1/completions";
  EXPECT_EQ(status_of(head), 405);
  head.path = "/nothing";
  EXPECT_EQ(status_of(head), 404);
}

TEST(RequestHead, KeysOpenEveryRoute) {
  AccessRules rules = local();
  rules.keys = {"secret", "other-key"};
  RequestHead head = get("/v1/models");
  EXPECT_EQ(status_of(head, rules), 401);
  EXPECT_EQ(status_of(get("/nothing"), rules), 401) << "a stranger does not learn the routes";
  EXPECT_EQ(status_of(get("/metrics"), rules), 401);
  EXPECT_EQ(status_of(get("/health"), rules), 200);
  for (const char* wrong : {"secret", "Bearer", "Bearer ", "Bearer secre", "Bearer secrets", "Bearer SECRET",
                            "Basic secret", "Bearer secret, Bearer secret"}) {
    head.authorization = wrong;
    EXPECT_EQ(status_of(head, rules), 401) << wrong;
  }
  head.authorization = "Bearer secret";
  EXPECT_EQ(admit(head, rules).client, 0U);
  head.authorization = "bearer other-key";
  EXPECT_EQ(admit(head, rules).client, 1U);
  head.authorization = "";
  for (const char* wrong : {"secre", "Bearer secret"}) {
    head.api_key = wrong;
    EXPECT_EQ(status_of(head, rules), 401) << wrong;
  }
  head.api_key = "other-key";
  EXPECT_EQ(admit(head, rules).client, 1U) << "as Anthropic's clients send it";
  head.host = "example.org";
  EXPECT_EQ(status_of(head, rules), 200) << "with a key any name of the server will do";
}

TEST(RequestHead, WithoutKeysTheHostIsThisMachine) {
  RequestHead head = get("/health");
  for (const char* host : {"localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]", "[::1]:80"}) {
    head.host = host;
    EXPECT_EQ(status_of(head), 200) << host;
  }
  for (const char* host :
       {"", "example.org", "localhost.example.org", "127.0.0.2", "::1", "localhost, localhost", "[::1"}) {
    head.host = host;
    EXPECT_EQ(status_of(head), 403) << host;
  }
  head.host = "";
  head.is_http_1_0 = true;
  EXPECT_EQ(status_of(head), 200);
}

TEST(RequestHead, PagesNeedTheirOriginAllowed) {
  AccessRules rules = local();
  RequestHead head = post("/v1/completions");
  head.origin = "https://app.example";
  EXPECT_EQ(status_of(head, rules), 403);
  rules.origins = {"https://app.example"};
  EXPECT_EQ(status_of(head, rules), 200);
  head.origin = "null";
  EXPECT_EQ(status_of(head, rules), 403);
  rules.origins = {"*"};
  EXPECT_EQ(status_of(head, rules), 200);
}

TEST(RequestHead, OriginsAreAsBrowsersSendThem) {
  const auto origin = [](const char* text) { return parse_origin(text, "--cors"); };
  EXPECT_EQ(origin("http://localhost:5174/"), "http://localhost:5174");
  EXPECT_EQ(origin("HTTPS://App.Example"), "https://app.example");
  EXPECT_EQ(origin("http://app.example:80"), "http://app.example");
  EXPECT_EQ(origin("https://[::1]:443"), "https://[::1]");
  EXPECT_EQ(origin("https://app.example:80"), "https://app.example:80");
  for (const char* own : {"*", "null", "chrome-extension://abc", "tauri://localhost"}) EXPECT_EQ(origin(own), own);
  for (const char* wrong : {"", "/", "localhost:5174", "http://", "http://a/b", "http://a//", "http://*.a",
                            "http://a,b", "://a", "http://u@a"}) {
    EXPECT_THROW(origin(wrong), BadInput) << wrong;
  }
}

TEST(RequestHead, PreflightsGetWhatTheyAskFor) {
  AccessRules rules = local();
  rules.keys = {"secret"};
  rules.origins = {"https://app.example"};
  RequestHead head = get("/v1/completions");
  head.method = "OPTIONS";
  EXPECT_EQ(status_of(head, rules), 401) << "no page asks";
  head.origin = "https://app.example";
  EXPECT_EQ(status_of(head, rules), 200) << "browsers send no key";
  head.asked_headers = "authorization,x-stainless-os,x-stainless-retry-count";
  head.asks_private_network = "true";
  const auto field = [&](const std::string& name) {
    for (const auto& [own, value] : cors_fields(head, rules)) {
      if (own == name) return value;
    }
    return std::string();
  };
  EXPECT_EQ(field("Access-Control-Allow-Origin"), "https://app.example");
  EXPECT_EQ(field("Access-Control-Allow-Headers"), head.asked_headers);
  EXPECT_EQ(field("Access-Control-Allow-Methods"), "POST, OPTIONS");
  EXPECT_EQ(field("Access-Control-Allow-Private-Network"), "true");
  EXPECT_EQ(field("Access-Control-Allow-Credentials"), "true");
  head.asks_private_network = "";
  EXPECT_EQ(field("Access-Control-Allow-Private-Network"), "");
  rules.origins = {"*"};
  EXPECT_EQ(field("Access-Control-Allow-Origin"), "*");
  EXPECT_EQ(field("Access-Control-Allow-Credentials"), "") << "not for all pages";
  head.method = "POST";
  EXPECT_EQ(field("Access-Control-Allow-Headers"), "");
  EXPECT_EQ(field("Access-Control-Expose-Headers"), "x-request-id, retry-after");
  head.origin = "";
  EXPECT_EQ(field("Vary"), "Origin") << "for caches between the pages and the server";
  EXPECT_EQ(field("Access-Control-Allow-Origin"), "");
  rules.origins.clear();
  EXPECT_TRUE(cors_fields(head, rules).empty());
}

TEST(RequestHead, BodiesAreUncompressedJson) {
  RequestHead head = post("/tokenize");
  for (const char* type :
       {"application/json", "Application/JSON", "application/json; charset=utf-8", "application/json ;x"}) {
    head.content_type = type;
    EXPECT_EQ(status_of(head), 200) << type;
  }
  for (const char* type :
       {"", "text/plain", "application/jsonp", "application/x-www-form-urlencoded", "a, application/json"}) {
    head.content_type = type;
    EXPECT_EQ(status_of(head), 415) << type;
  }
  head.content_type = "application/json";
  head.content_encoding = "gzip";
  EXPECT_EQ(status_of(head), 415);
  head.content_encoding = "Identity";
  EXPECT_EQ(status_of(head), 200);
  EXPECT_EQ(status_of(post("/tokenize", 4 << 20)), 200);
  EXPECT_EQ(status_of(post("/tokenize", (4 << 20) + 1)), 413);
  RequestHead with_body = get("/health");
  with_body.content_length = 1;
  EXPECT_EQ(status_of(with_body), 400);
}

TEST(RequestHead, FramingIsPlain) {
  RequestHead head = post("/tokenize");
  head.content_length.reset();
  head.transfer_encoding = "Chunked";
  EXPECT_EQ(status_of(head), 200);
  for (const char* encoding : {"gzip, chunked", "chunked, chunked", "identity", "xchunked", "chunked;q=1"}) {
    head.transfer_encoding = encoding;
    EXPECT_EQ(status_of(head), 400) << encoding;
  }
  head.transfer_encoding = "chunked";
  head.content_length = 5;
  EXPECT_EQ(status_of(head), 400);
  RequestHead many = get("/health");
  many.n_fields = 100;
  EXPECT_EQ(status_of(many), 200);
  many.n_fields = 101;
  EXPECT_EQ(status_of(many), 431);
}

TEST(RequestHead, RequestIdsAreTakenOverIfTheyAreOrdinary) {
  RequestHead head = get("/health");
  const auto id_of = [&](const std::string& id) {
    head.request_id = id;
    return request_id_of(head, "own");
  };
  EXPECT_EQ(id_of("a-Z_0.9"), "a-Z_0.9");
  for (const std::string& id : {std::string(), std::string("a b"), std::string("a\"b"), std::string(65, 'a')}) {
    EXPECT_EQ(id_of(id), "own") << id;
  }
}

TEST(RequestHead, FilesOfKeys) {
  EXPECT_EQ(parse_keys("a\n\nbc \r\n", "f"), (std::vector<std::string>{"a", "bc"}));
  for (const char* text : {"", "\n\n", "a b", "caf\xC3\xA9"}) EXPECT_THROW(parse_keys(text, "f"), BadInput) << text;
}

}  // namespace
}  // namespace vitrine::test
