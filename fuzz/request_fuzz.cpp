// The body of a request of the server, after a line with its path. A request that is accepted is answered with made-up
// tokens, whole and as a stream.
#include "checkpoint/hugging_face/config_json.h"
#include "fuzzing.h"
#include "model/dry_run.h"
#include "serve/completion_reply.h"
#include "serve/embeddings.h"
#include "serve/ollama/reply.h"
#include "serve/request_fields.h"
#include "serve/request_head.h"
#include "serve/responses/reply.h"
#include "serve/responses/request.h"
#include "serve/routes.h"
#include "serve/site_fields.h"

using namespace vitrine;

namespace {

constexpr std::int32_t kBos = 256;

/// A token for each byte, and BOS.
class Bytes : public Tokenizer {
 public:
  std::string piece(std::int32_t id) const override { return id == kBos ? "<s>" : bytes(id); }
  std::string bytes(std::int32_t id) const override {
    return checked_index(id) == kBos ? "" : std::string(1, static_cast<char>(id));
  }
  std::int64_t vocab_size() const override { return 257; }
  std::optional<std::int32_t> bos() const override { return kBos; }
  const std::vector<std::int32_t>& stop_ids() const override { return stops_; }

 private:
  std::vector<std::int32_t> encode(std::string_view text, const SpecialRule& rule, EncodingRecorder*) const override {
    std::vector<std::int32_t> ids;
    if (rule.policy == SpecialTokens::apply) ids.push_back(kBos);
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::vector<std::int32_t> stops_ = {kBos};
};

struct Served {
  Bytes tokenizer;
  ChatFormat chat;
  Model network;
  ServedModel model;

  Served() : chat(templates(), tokenizer, {}, "fuzz"), network(shape_model(config())) {
    model.model = &network;
    model.names = {"model"};
    model.vocab_size = 300;  // more than the tokenizer has
    model.max_seq_len = 4096;
    model.d_model = 2;
    model.tokenizer = &tokenizer;
    model.chat = &chat;
    model.templates = templates();
    model.defaults.bos = kBos;
    model.defaults.stop_ids = model.chat_stop_ids = {kBos};
  }
  static ModelConfig config() {
    const Json json = Json::parse(R"({"model_type": "llama", "hidden_size": 2, "intermediate_size": 2,
        "num_hidden_layers": 1, "vocab_size": 300, "num_attention_heads": 1, "max_position_embeddings": 4096,
        "tie_word_embeddings": true})");
    return read_model_config(family_of(json, "fuzz"), json, "fuzz");
  }
  static ChatTemplates templates() {
    ChatTemplates templates;
    templates.by_name["default"] = "{% for m in messages %}{{ m.role }}{{ m.name }}: {{ m.content }}\n{% endfor %}";
    return templates;
  }
};

TokenReport report(std::int32_t id, int n) {
  TokenReport token{id, -0.5, {}};
  for (int i = 0; i < n; ++i) token.top.push_back({(id + i) % 300, -1.0 - i});
  return token;
}

/// The result of a sequence, with tokens that are bytes, BOS and unknown to the tokenizer.
GenerateResult made_up(const GenerateRequest& request) {
  GenerateResult result;
  for (const std::int32_t id : {0xE2, int{'a'}, 0xFF, int{kBos}, 299}) {
    if (std::ssize(result.ids) == request.max_tokens) break;
    result.ids.push_back(id);
    if (request.wants_logprobs) result.logprobs.push_back(report(id, request.n_logprobs));
  }
  result.text =
      "\xE2"
      "a\xFF";
  if (request.wants_prompt_logprobs) {
    for (std::size_t i = 1; i < request.prompt.size(); ++i) {
      result.prompt_logprobs.push_back(report(request.prompt[i], request.n_logprobs));
    }
  }
  return result;
}

void answer_texts(const ServedModel& model, const CompletionRequest& request) {
  CompletionReply reply(model, request, "1", 0);
  std::vector<GenerateResult> results;
  for (std::size_t i = 0; i < std::min<std::size_t>(request.n_sequences(), 8); ++i) {
    const GenerateRequest sequence = request.sequence(i, model.defaults);
    fuzz::expect(!sequence.prompt.empty() && sequence.prompt.size() <= 4096, "a prompt fits the context");
    sequence.sampling.validate();
    results.push_back(made_up(sequence));
    if (!request.streams) continue;
    for (std::size_t t = 0; t <= results[i].ids.size(); ++t) {
      SequenceStep step;
      step.id = i;
      if (t == 0) step.prompt_logprobs = results[i].prompt_logprobs;
      if (t < results[i].ids.size()) step.tokens = {report(results[i].ids[t], sequence.n_logprobs)};
      if (t == results[i].ids.size()) step.result = results[i];
      for (const Json& chunk : reply.chunks(std::move(step))) json_text(chunk);
    }
  }
  if (!request.streams && results.size() == request.n_sequences()) json_text(reply.whole(results));
}

void answer_response(const ServedModel& model, const ResponsesRequest& asked) {
  const CompletionRequest request = parse_chat(model, asked.chat_body, 1);
  const GenerateResult result = made_up(request.sequence(0, model.defaults));
  ResponsesReply whole(model, request, asked, "1", 0), streamed(model, request, asked, "1", 0);
  const Json response = Json::parse(whole.whole({&result, 1}));
  SequenceStep step;
  step.text = result.text;
  step.tokens = result.logprobs;
  step.result = result;
  const std::string events = streamed.events(std::move(step));
  fuzz::expect(events.ends_with("}\n\n") && response["output"].is_array(), "a response has items and events");
}

void answer_as_ollama(const ServedModel& model, const ollama::TextRequest& asked) {
  if (asked.only_loads) return;
  const CompletionRequest request = ollama::parse(model, asked, 1);
  const GenerateResult result = made_up(request.sequence(0, model.defaults));
  ollama::OllamaReply whole(model, request, asked, {}), stream(model, request, asked, {});
  whole.whole({&result, 1});
  SequenceStep last;
  last.text = result.text;
  last.result = result;
  stream.events(std::move(last));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Served served;
  const std::string_view text = fuzz::text_of(data, size);
  const std::size_t end = std::min(text.find('\n'), text.size());
  return fuzz::answer([&] {
    RequestHead head;
    head.path = parse_target(text.substr(0, end)).path;
    head.method = methods_of(head.path).starts_with("POST") ? "POST" : "GET";
    head.content_type = "application/json";
    head.host = "localhost";
    const AccessRules rules{{}, {"localhost"}, {}};
    const AdmittedHead admitted = admit(head, rules);
    const std::string_view body = text.substr(std::min(end + 1, text.size()));
    const Route& route = *admitted.route;
    if (const auto* const answer = std::get_if<Route::Answer>(&route.handler)) {
      json_text((*answer)(served.model, {body, admitted.name, "1", 0, {}}));
    } else if (route.path == "/v1/completions") {
      answer_texts(served.model, parse_completion(served.model, body, 1));
    } else if (route.path == "/v1/chat/completions") {
      answer_texts(served.model, parse_chat(served.model, body, 1));
    } else if (route.path == "/v1/responses") {
      answer_response(served.model, read_responses_request(served.model, body));
    } else if (route.path == "/v1/embeddings") {
      const EmbeddingRequest request = parse_embeddings(served.model, body);
      json_text(embeddings_reply(request, {request.texts.size(), {1, 2}}));
    } else if (route.path == "/api/chat") {
      answer_as_ollama(served.model, ollama::read_chat(served.model, body));
    } else if (route.path == "/api/generate") {
      answer_as_ollama(served.model, ollama::read_generate(served.model, body));
    } else if (route.path == "/api/embed") {
      const ollama::VectorRequest request = ollama::read_embed(served.model, body);
      json_text(ollama::vectors_json(request, {request.texts.texts.size(), {1, 2}}, {}));
    } else if (route.path == "/v1/trace") {
      const TraceRequest request = parse_trace(served.model, body);
      fuzz::expect(request.recorder->bytes() <= served.model.max_trace_bytes, "a trace is not too large");
      fuzz::expect(request.sequence().prompt.size() <= 4096, "a prompt fits the context");
      request.file();
    }
  });
}
